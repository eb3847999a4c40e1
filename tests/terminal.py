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
    """Lines that a terminal shows after the control codes of cursor up, erase line, erase below, column 1 and cursor on
    and off. It breaks lines that are longer than it is wide, and breaks them anew when its width changes."""

    def __init__(self, columns: int = 100) -> None:
        self.columns = columns
        self.lines = [""]
        self.row = self.column = 0
        self.cursor = True
        self.coloured = False
        self.longest = 0
        self.unknown: set[str] = set()

    def feed(self, text: str) -> None:
        """Take up what was written."""
        for argument, command, letter in CODE.findall(text):
            if letter:
                self._letter(letter)
            elif command == "A":
                for _ in range(int(argument or 1)):
                    self._up()
            elif command == "J" and not argument:
                self.lines[self.row :] = [self.lines[self.row][: self.column]]
            elif command == "K" and argument == "2":
                self.lines[self.row] = ""
            elif command in "hl" and argument == "?25":
                self.cursor = command == "h"
            elif command == "m":
                self.coloured = True
            else:
                self.unknown.add(argument + command)

    def _up(self) -> None:
        """To the line above on the screen, of which one text may take several."""
        if self.column >= self.columns:
            self.column -= self.columns
        elif self.row > 0:
            self.row -= 1
            self.column += (max(len(self.lines[self.row]) - 1, 0) // self.columns) * self.columns

    def _letter(self, letter: str) -> None:
        if letter == "\r":
            self.column -= self.column % self.columns
        elif letter == "\n":
            self.row += 1
            self.column = 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + letter + line[self.column + 1 :]
            self.column += 1
            self.longest = max(self.longest, self.column)

    def shown(self) -> list[str]:
        """The lines that are not empty."""
        return [line.rstrip() for line in self.lines if line.strip()]


class Terminal:
    """A pseudo-terminal of 100 columns: `stream` is what a program writes to; after `close` all that came is there."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self._master, slave = pty.openpty()
        self.stream = io.TextIOWrapper(os.fdopen(slave, "wb", buffering=0), encoding=encoding, write_through=True)
        self.written = b""
        self._widths: list[tuple[int, int]] = []  # how much was written when, and how wide it was from then on
        self.resize(100)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def resize(self, columns: int, rows: int = 30) -> None:
        """Its window is made as large as this."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._widths.append((len(self.written), columns))

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
        return self.screen()

    def screen(self) -> Screen:
        """The screen now; `longest` is of the last width."""
        screen = Screen()
        for (start, columns), (end, _) in zip(self._widths, [*self._widths[1:], (len(self.written), 0)], strict=True):
            screen.columns, screen.longest = columns, 0
            screen.feed(self.written[start:end].decode(self.stream.encoding))
        return screen
