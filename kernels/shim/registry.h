// Makes a module's kernels known to the shim, by name.
#pragma once

#include <initializer_list>

#include "libcuda.h"

template <class P> P parameter_of(void (*)(P));

template <class P, void (*kernel)(P)> void call(const void *parameter) { kernel(*(const P *)parameter); }

#define KERNEL(name) Kernel{#name, sizeof(decltype(parameter_of(name))), call<decltype(parameter_of(name)), name>}

struct Registered {
    Registered(std::initializer_list<Kernel> list) { kernels().insert(kernels().end(), list); }
};
