"""Runs trytond until its standard input ends: `python3 run_trytond.py TRYTOND ARGUMENT...`.

The test holds the other end of the input. If the test is killed, the input ends, and the server ends, too.
"""
import os
import runpy
import sys
import threading
import warnings

warnings.filterwarnings('ignore', category=DeprecationWarning)


def end_with_input():
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == '__main__':
    threading.Thread(target=end_with_input, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name='__main__')
