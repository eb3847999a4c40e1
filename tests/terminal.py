"""A terminal for tests: a pseudo-terminal that the program writes to, and what would stand on its screen."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
import threading

CODE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])|(.)", re.S)


class Screen:
    """Lines that a terminal shows after the control codes of cursor up, erase line, column 1 and cursor on and off."""

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0
        self.cursor = True
        self.coloured = False
        self.unknown: set[str] = set()

    def feed(self, text: str) -> None:
        """Take up what was written."""
        for argument, command, letter in CODE.findall(text):
            if letter:
                self._letter(letter)
            elif command == "A":
                self.row -= int(argument or 1)
            elif command == "K" and argument == "2":
                self.lines[self.row] = ""
            elif command in "hl" and argument == "?25":
                self.cursor = command == "h"
            elif command == "m":
                self.coloured = True
            else:
                self.unknown.add(argument + command)

    def _letter(self, letter: str) -> None:
        if letter == "\r":
            self.column = 0
        elif letter == "\n":
            self.row += 1
            self.lines += [""] * (self.row + 1 - len(self.lines))
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + letter + line[self.column + 1 :]
            self.column += 1

    def shown(self) -> list[str]:
        """The lines that are not empty."""
        return [line.rstrip() for line in self.lines if line.strip()]


class Terminal:
    """A pseudo-terminal of 100 columns: `stream` is what a program writes to; after `close` all that came is there."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.stream = io.TextIOWrapper(os.fdopen(slave, "wb", buffering=0), encoding=encoding, write_through=True)
        self.written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._master, 65536):
                self.written += data
        except OSError:  # the other side is closed
            pass

    def close(self) -> Screen:
        """The screen at the end."""
        self.stream.close()
        self._reader.join()
        os.close(self._master)
        screen = Screen()
        screen.feed(self.written.decode(self.stream.encoding))
        return screen
