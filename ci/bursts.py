"""Bursts of TCP between two hosts of a lab, for tests under load: `bursts.py receive ADDRESS...`, `bursts.py send ADDRESS...`, one rail for each address."""

import random
import socket
import sys
import threading
import time

PORT = 5999
# Seconds that a burst lasts, and that nothing is sent after it.
ON, OFF = (0.2, 1.5), (0.1, 1.0)


def receive(address):
    with socket.create_server((address, PORT)) as listener:
        while True:
            caller, _ = listener.accept()
            with caller:
                while caller.recv(1 << 20):
                    pass


def send(address):
    draw = random.Random(address)
    while True:
        try:
            with socket.create_connection((address, PORT), timeout=5) as peer:
                while True:
                    until = time.monotonic() + draw.uniform(*ON)
                    while time.monotonic() < until:
                        peer.sendall(bytes(1 << 16))
                    time.sleep(draw.uniform(*OFF))
        except OSError:
            time.sleep(0.2)


def main():
    work = {"receive": receive, "send": send}[sys.argv[1]]
    threads = [threading.Thread(target=work, args=(address,)) for address in sys.argv[2:]]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main()
