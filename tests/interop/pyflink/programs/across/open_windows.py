"""A job of PyFlink that collects the numbers of each key in windows of a hundred seconds, a number being its second."""

import json

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

NUMBERS = Types.TUPLE([Types.LONG(), Types.LONG()])


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


class Collects(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield json.dumps([key, context.window().start, sorted(number for _, number in elements)])


def numbers_of(line):
    key, number = line.split(" ")
    return int(key), int(number)


def numbers(keyed):
    return keyed.map(numbers_of, NUMBERS).uid("numbers")


def windows(stream):
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds())
    keyed = stream.assign_timestamps_and_watermarks(times).key_by(lambda value: value[0], Types.LONG())
    collected = keyed.window(TumblingEventTimeWindows.of(Time.seconds(100))).process(Collects(), Types.STRING())
    return collected.uid("windows")


def make(keyed):
    return windows(numbers(keyed))
