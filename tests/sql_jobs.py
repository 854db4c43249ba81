"""Jobs of Flink SQL over files: `flink-sql/Sql.java` compiles their plans and runs them; their inputs, drawn here."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import attrs

from stateshift import Savepoint
from stateshift.state.savepoint.json_encoding import tagged_operator

PROGRAMS = Path(__file__).parent / "interop" / "flink-sql"
OPENED = ("lang", "util", "time", "math", "lang.invoke", "util.concurrent", "text", "net", "io", "nio")
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a Java that lives for seconds: its code is worth no better compiler."""
WORDS = ("ant", "bee", "crocodile", "", "dromedary camel", "eel", "Größe", "日本語テキスト", "😀", "fox")
DAYS = ("2024-02-29", "1969-12-31", "2001-09-09", "")
FILES = "'connector'='filesystem','path'='{place}','format'='csv','source.monitor-interval'='1 s','csv.null-literal'=''"
TABLES = {
    "orders": "id BIGINT, customer INT, amount DECIMAL(10,2), total DECIMAL(30,4), note STRING, ts TIMESTAMP(3),"
    " `day` DATE, flag BOOLEAN, price DOUBLE, seen TIMESTAMP(6), proc AS PROCTIME(),"
    " WATERMARK FOR ts AS ts - INTERVAL '40' DAY",
    "customers": "id INT, name STRING, city STRING, score DECIMAL(38,10), seen TIMESTAMP(6)",
}
QUERIES = sorted(file.stem for file in PROGRAMS.glob("*.sql"))


def orders(draw, first, count):
    """Lines of orders; some occur twice."""
    lines = []
    for number in range(first, first + count):
        seen = draw.choice(["", f"2023-03-{number % 28 + 1:02d} 01:02:03.{draw.randrange(10**6):06d}"])
        total = draw.choice(["", f"{draw.randrange(-(10**26), 10**26)}.{draw.randrange(10**4):04d}"])
        fields = (
            number, draw.randrange(1, 15), f"{draw.randrange(10**6)}.{draw.randrange(100):02d}", total,
            draw.choice(WORDS), f"2024-01-{number % 28 + 1:02d} 12:{number % 60:02d}:07.{number * 7 % 1000:03d}",
            draw.choice(DAYS), draw.choice(("true", "false", "")), draw.randrange(10**6) / 64, seen,
        )  # fmt: skip
        lines += [",".join(map(str, fields))] * draw.choice((1, 1, 1, 2))
    return lines


def customers(draw, first, count):
    """Lines of customers."""
    for number in range(first, first + count):
        score = f"{draw.randrange(-(10**20), 10**20)}.{draw.randrange(10**10):010d}"
        city = "city" * (number % 4)
        yield f"{number},{draw.choice(WORDS)}-{number},{city},{score},1999-12-31 23:59:59.{draw.randrange(10**6):06d}"


def contents(place):
    """The keyed states and timers of a savepoint as an export has them, by operator and state."""
    return {
        (operator.uid, state.name): tagged_operator(operator, [state])
        for operator in Savepoint.open(place).operators
        for state in operator.states
        if state.kind.is_keyed
    }


@attrs.frozen
class SqlJobs:
    """A folder with inputs, plans and savepoints; each query has a folder of its own in it.

    Attributes:
        flink: The Flink that runs them.
        place: The folder.
        backend: Where they keep state.
    """

    flink: object
    place: Path
    backend: str = "rocksdb"

    def write_inputs(self, part):
        """Write a further file of each table: part 0, 1, …"""
        draw = random.Random(part)  # noqa: S311 - it draws inputs
        lines = {"orders": orders(draw, 1 + 60 * part, 60), "customers": customers(draw, 1 + 10 * part, 10)}
        for table, rows in lines.items():
            folder = self.place / "input" / table
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"part-{part}.csv").write_text("\n".join([*rows, ""]), encoding="utf-8")

    def append(self, table, name, *rows):
        """Write a further file of a table: rows of fields."""
        folder = self.place / "input" / table
        folder.mkdir(parents=True, exist_ok=True)
        hidden = folder / f".{name}"  # Flink's source does not see it
        hidden.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
        hidden.rename(folder / name)

    def script(self, query):
        """Write the script of a query; give its file."""
        tables = [
            f"CREATE TABLE {table} ({of}) WITH ({FILES.format(place=self.place / 'input' / table)});\n"
            for table, of in TABLES.items()
        ]
        text = (PROGRAMS / f"{query}.sql").read_text(encoding="utf-8")
        file = self.of(query) / "script.sql"
        text = text.replace("@SINK@", str(self.of(query) / "results"))
        file.write_text("".join(tables) + text, encoding="utf-8")
        return file

    def of(self, query):
        """Give the folder of a query."""
        folder = self.place / query
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def run(self, *steps):
        """Run steps of `Sql.java`: jobs beside each other, on one mini cluster."""
        for _, _, *out in steps:
            Path(out[-1]).mkdir(exist_ok=True) if len(out) > 1 else None
        if steps:
            self.tell("Sql", *(word for step in steps for word in step))

    def started(self, *steps):
        """Start steps of `Sql.java`; give the process, whose output is text."""
        command = self.command("Sql", *(word for step in steps for word in step))
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=self.place)

    def tell(self, program, *words):
        """Run a program of `flink-sql/`; give what it prints."""
        return self._run(self.command(program, *words))

    def command(self, program, *words):
        """Give the command that runs a program of `flink-sql/`, which is compiled before."""
        classes = self.place / "classes"
        jars = os.pathsep.join(map(str, sorted(self.flink.jars.glob("*.jar"))))
        if not (classes / "fx" / f"{program}.class").exists():
            source = PROGRAMS / f"{program}.java"
            javac = [self.flink.jdk / "javac", *(f"-J{option}" for option in SHORT_LIVED)]
            self._run([*javac, "-nowarn", "-d", classes, "-cp", jars, source])
            if program == "Sql":
                services = classes / "META-INF" / "services"  # by which Flink finds the connector 'looked-up'
                services.mkdir(parents=True, exist_ok=True)
                (services / "org.apache.flink.table.factories.Factory").write_text("fx.Sql$LookedUp\n", "utf-8")
        opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED]
        opened.append(f"-Dbackend={self.backend}")
        run = [self.flink.jdk / "java", *opened, *SHORT_LIVED, "-Xmx2500m", "-cp", f"{jars}{os.pathsep}{classes}"]
        return [*run, f"fx.{program}", *map(str, words)]

    def _run(self, command):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False, cwd=self.place)
        assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-9000:]
        return ran.stdout
