// One thread block on one thread of the CPU.
#pragma once

extern "C" {
// Runs `body(argument)` once for each of `threads` CUDA threads of block `block` of `blocks`, and returns when all are done.
void shim_run_block(void (*body)(const void *), const void *argument, unsigned block, unsigned blocks, unsigned threads);

// For ThreadSanitizer, which does not see the host's reads of flags: everything published before is seen after this.
void shim_heard();
}
