"""The jobs and profiles of a workload file, and the records of a log, read into columns without an
object for each.

Only what is written in the usual way is read so: the fields of Batsim with plain values, each once,
and profiles that are delays. A scanner gives up at anything else, which the general reader then
reads, or tells what is wrong with it.
"""

from __future__ import annotations

from array import array
from typing import Any

from qops_batsim.job_fields import HOST_FIELDS
from qops_batsim.limits import MAX_SECONDS

ID, DATE, PROCESSORS, PROFILE, WALLTIME, REQUEST, OTHER = range(7)
"""What fields are read as; several others may be."""

CODES = {
    b"id": ID,
    b"subtime": DATE,
    b"res": PROCESSORS,
    b"profile": PROFILE,
    b"walltime": WALLTIME,
    b"qos": REQUEST,
    b"user": OTHER,
    b"group": OTHER + 1,
    b"executable": OTHER + 2,
    b"queue": OTHER + 3,
    b"qos_name": OTHER + 4,
}
ON_HOSTS = len(CODES)
"""From here on, fields that say what a job asks of its hosts."""

CODES |= {name.encode(): ON_HOSTS + place for place, name in enumerate(HOST_FIELDS)}
NAMES = list(CODES)
NEEDED = 1 << ID | 1 << DATE | 1 << PROCESSORS | 1 << PROFILE

MOST_DIGITS = 15
"""Numbers of so many digits, and powers of ten up to there, are exact as floats."""

POWERS = array("d", [10.0**power for power in range(MOST_DIGITS + 1)])
NULL = b"null"

QUOTE, COLON, COMMA, MINUS, POINT, ZERO, NINE, BACKSLASH = b'":,-.09\\'
OPEN_LIST, CLOSE_LIST, OPEN, CLOSE, BLANK = b"[]{} "
TAB, NEW_LINE, RETURN, SEMICOLON = b"\t\n\r;"
LONGEST_ROW = 10_000
"""Letters of a line that may be a record."""

_LONGEST_ROW = LONGEST_ROW  # known to C
LAST = 0x7E
EXPONENTS = b"eE"
NAN = float("nan")
DELAY = b"delay"
LONGEST = MAX_SECONDS


def fill(values: list[bytes], count: int, nothing: bytes) -> None:
    """Append what stands for nothing until there are so many values."""
    while len(values) < count:
        values.append(nothing)


class Scanner:
    """Reads profiles, or jobs, from JSON whose syntax is right.

    Attributes
    ----------
    profiles, places
        Profiles by name, and the place of each.
    count, ids
        How many jobs there are, and their identifiers.
    dates, walltimes
        Seconds, NaN without walltime.
    processors, profile_of
        Numbers of processors, and places of profiles.
    requests
        The JSON of what users ask for in ``qos``; empty if no job has that.
    hosts_asked
        The fields of hosts as JSON, each with a comma behind; empty if no job has such.
    comments
        Lines that are comments.
    """

    def __init__(self, text: bytes, places: dict[bytes, int] | None = None) -> None:
        self.text = text
        self.data = text
        self.size = len(text)
        self.at = 0
        # Of the last string or number.
        self.begin = 0
        self.end = 0
        self.value = 0.0
        self.whole = 0
        self.is_whole = False

        self.profiles: dict[str, dict[str, Any]] = {}
        self.places = {} if places is None else places
        most = 0 if places is None else text.count(b"{")
        self.count = 0
        self.ids: list[str] = []
        self.dates = self.date_at = array("d", bytes(8 * most))
        self.walltimes = self.walltime_at = array("d", bytes(8 * most))
        self.processors = self.processors_at = array("q", bytes(8 * most))
        self.profile_of = self.profile_at = array("q", bytes(8 * most))
        self.requests: list[bytes] = []
        self.hosts_asked: list[bytes] = []
        self.comments: list[bytes] = []
        # How the fields of the last job were named, up to their values: usually the next has them.
        self.names: list[bytes] = []
        self.layout = self.layout_data = b""
        self.ends = array("q", bytes(8 * len(CODES)))
        self.code_at = array("q", bytes(8 * len(CODES)))

    def scan_profiles(self) -> bool:
        """Read all profiles; return whether they are written in the usual way."""
        if not self.take(OPEN):
            return False
        count = 0
        while self.scan_profile():
            count += 1
            if not self.take(COMMA):
                whole = self.take(CLOSE) and self.at == self.size
                # A name may be given twice.
                return whole and len(self.places) == count
        return False

    def scan_profile(self) -> bool:
        """Read one profile."""
        if not self.scan_string():
            return False
        name = self.data[self.begin : self.end]
        if not (self.take(COLON) and self.take(OPEN)):
            return False
        if not self.scan_field(b"type") or not self.scan_string():
            return False
        if self.data[self.begin : self.end] != DELAY or not self.take(COMMA):
            return False
        if not self.scan_field(DELAY) or not self.scan_number() or not self.take(CLOSE):
            return False
        profile: dict[str, Any] = {"type": "delay", "delay": self.value}
        if self.is_whole:
            profile["delay"] = self.whole
        self.profiles[name.decode()] = profile
        self.places[name] = len(self.places)
        return 0 < self.value <= LONGEST

    def scan_field(self, name: bytes) -> bool:
        """Read a name; return whether it is this one."""
        return self.scan_string() and self.data[self.begin : self.end] == name and self.take(COLON)

    def scan_jobs(self) -> bool:
        """Read all jobs; return whether they are all written in the usual way."""
        if not self.take(OPEN_LIST):
            return False
        while self.scan_job():
            if not self.take(COMMA):
                # Of the jobs behind the last one that asks for something.
                if self.requests:
                    fill(self.requests, self.count, NULL)
                if self.hosts_asked:
                    fill(self.hosts_asked, self.count, b"")
                return self.take(CLOSE_LIST) and self.at == self.size
        return False

    def scan_job(self) -> bool:
        """Read one job."""
        if not self.take(OPEN):
            return False
        index = self.count
        given = 0
        self.walltime_at[index] = NAN
        place = 0
        while True:
            code = self.scan_name(place)
            if code < 0 or given >> code & 1 or not self.scan_value(code, index):
                return False
            given |= 1 << code
            place += 1
            if not self.take(COMMA):
                break
        self.count += 1
        return self.take(CLOSE) and given & NEEDED == NEEDED

    def scan_name(self, place: int) -> int:
        """Read the name of a job's next field; return what it is, -1 if it is not known."""
        at = self.at
        if place < len(self.names):
            known = self.layout_data
            since = 0 if place == 0 else self.ends[place - 1]
            until = self.ends[place]
            if at + until - since <= self.size:
                while since < until and self.data[at] == known[since]:
                    at += 1
                    since += 1
                if since == until:
                    self.at = at
                    return self.code_at[place]

        at = self.at
        if place == len(CODES) or not self.scan_string() or not self.take(COLON):
            return -1
        code: int = CODES.get(self.data[self.begin : self.end], -1)
        self.names[place:] = [self.text[at : self.at]]
        self.layout = b"".join(self.names)
        self.layout_data = self.layout
        self.ends[place] = len(self.layout)
        self.code_at[place] = code
        return code

    def scan_value(self, code: int, index: int) -> bool:
        """Read the value of a job's field."""
        letter = self.data[self.at]
        if code == ID:
            if letter == QUOTE:
                if not self.scan_string():
                    return False
            elif letter == MINUS or not self.scan_number() or not self.is_whole:
                return False
            self.ids.append(self.data[self.begin : self.end].decode("ascii"))
            return True
        if code == PROFILE:
            if not self.scan_string():
                return False
            found: int = self.places.get(self.data[self.begin : self.end], -1)
            self.profile_at[index] = found
            return found >= 0
        if code == REQUEST or code >= ON_HOSTS:
            return self.scan_request(code, index)
        if letter == NULL[0] and code >= WALLTIME:
            return self.take_null()
        if letter == QUOTE:
            return code >= OTHER and self.scan_string()
        if not self.scan_number():
            return False
        if code == DATE:
            self.date_at[index] = self.value
        elif code == WALLTIME:
            self.walltime_at[index] = self.value
        elif code == PROCESSORS:
            self.processors_at[index] = self.whole
            return self.is_whole
        return True

    def scan_request(self, code: int, index: int) -> bool:
        """Read what a job's user asks for, or of its hosts, which begins here: it is decoded later.

        It ends before the next comma or bracket that is not within it.
        """
        begin = self.at
        letter = self.data[begin]
        if letter != OPEN and code == REQUEST:
            return self.take_null()
        depth = 0
        while self.at < self.size:
            letter = self.data[self.at]
            if letter == QUOTE:
                if not self.scan_string():
                    return False
                continue
            if letter in (OPEN, OPEN_LIST):
                depth += 1
            elif letter in (CLOSE, CLOSE_LIST):
                depth -= 1
            if depth < 0 or (depth == 0 and letter == COMMA):
                break
            self.at += 1

        text = self.text[begin : self.at]
        if code == REQUEST:
            fill(self.requests, index, NULL)
            self.requests.append(text)
        else:
            fill(self.hosts_asked, index + 1, b"")
            self.hosts_asked[index] += b'"%b":%b,' % (NAMES[code], text)
        return True

    def scan_string(self) -> bool:
        """Read a string of ASCII letters, in which nothing is escaped, and blanks behind it."""
        at = self.at
        if at >= self.size or self.data[at] != QUOTE:
            return False
        at += 1
        self.begin = at
        letter = self.data[at]
        while letter != QUOTE:
            if letter < BLANK or letter > LAST or letter == BACKSLASH:
                return False
            at += 1
            letter = self.data[at]
        self.end = at
        self.at = at + 1
        self.pass_blanks()
        return True

    def scan_number(self) -> bool:
        """Read a number without exponent, and blanks behind it."""
        if not self.read_number():
            return False
        self.pass_blanks()
        return True

    def read_number(self) -> bool:
        """Read a number without exponent."""
        data = self.data
        at = self.at
        is_negative = data[at] == MINUS
        at += is_negative
        begin = at
        whole = 0
        letter = data[at]
        while ZERO <= letter <= NINE:
            whole = whole * 10 + (letter - ZERO)
            at += 1
            letter = data[at]
            if at - begin > MOST_DIGITS:
                return False
        digits = at - begin
        if digits == 0 or (digits > 1 and data[begin] == ZERO):
            return False

        decimals = 0
        has_point = letter == POINT
        if letter == POINT:
            at += 1
            letter = data[at]
            while ZERO <= letter <= NINE and digits + decimals <= MOST_DIGITS:
                whole = whole * 10 + (letter - ZERO)
                decimals += 1
                at += 1
                letter = data[at]
            while ZERO <= letter <= NINE:
                decimals += 1
                at += 1
                letter = data[at]
        if (has_point and decimals == 0) or letter == EXPONENTS[0] or letter == EXPONENTS[1]:
            return False

        self.begin = self.at
        self.end = at
        self.at = at
        self.is_whole = not has_point
        self.whole = -whole if is_negative else whole
        if digits + decimals <= MOST_DIGITS:
            self.value = whole / POWERS[decimals]
        else:
            self.value = abs(float(self.text[self.begin : at]))
        if is_negative:
            self.value = -self.value
        # A zero with a sign is none.
        return not (is_negative and self.value == 0)

    def scan_rows(self, matrix: Any, lines: Any) -> int:
        """Read lines of numbers into a matrix, and the line of each; return how many they are, or
        -1 if they do not fill its columns, or something else stands there.

        Lines that begin with ``;`` go to ``comments``.
        """
        width = matrix.shape[1]
        count = 0
        line = 1
        while True:
            self.pass_spaces()
            begin = self.at
            if begin >= self.size:
                return count
            letter = self.data[begin]
            if letter == NEW_LINE:
                line += 1
                self.at += 1
                continue
            if letter == SEMICOLON:
                while self.at < self.size and self.data[self.at] != NEW_LINE:
                    self.at += 1
                self.comments.append(self.data[begin : self.at])
                continue
            for column in range(width):
                if not self.read_number():
                    return -1
                matrix[count, column] = self.value
                end = self.at
                self.pass_spaces()
                if self.at == end and end < self.size and self.data[end] != NEW_LINE:
                    return -1
            if self.at < self.size and self.data[self.at] != NEW_LINE:
                return -1
            if self.at - begin > _LONGEST_ROW:
                return -1
            lines[count] = line
            count += 1

    def pass_spaces(self) -> None:
        """Step over blanks within a line, and what a line may have before its end."""
        while self.at < self.size:
            letter = self.data[self.at]
            if letter == RETURN and self.at + 1 < self.size and self.data[self.at + 1] != NEW_LINE:
                break
            if letter != BLANK and letter != TAB and letter != RETURN:
                break
            self.at += 1

    def take_null(self) -> bool:
        """Step over ``null`` and the blanks behind it."""
        begin = self.at
        self.at += len(NULL)
        is_null = self.text[begin : self.at] == NULL
        self.pass_blanks()
        return is_null

    def take(self, letter: int) -> bool:
        """Step over this letter and the blanks behind it; return whether it is there."""
        if self.at >= self.size or self.data[self.at] != letter:
            return False
        self.at += 1
        self.pass_blanks()
        return True

    def pass_blanks(self) -> None:
        """Step over blanks and ends of lines."""
        while self.at < self.size:
            letter = self.data[self.at]
            if letter != BLANK and not TAB <= letter <= NEW_LINE and letter != RETURN:
                break
            self.at += 1
