"""Define the log layouts of programs, and what log shippers put around each line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Literal
from xml.sax.saxutils import escape

Backend = Literal["reload4j", "logback", "log4j2", "jul"]
_BOOT = "%d{yyyy-MM-dd HH:mm:ss.SSS} %5p 4711 --- [%15.15t] %-40.40logger{39} : %m%n"
_BOOT3 = "%d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %5p 4711 --- [orders] [%15.15t] %-40.40logger{39} : %m%n"


@dataclass(frozen=True)
class Layout:
    """A log layout. `pattern`: a logging library's pattern, or the name of a log4j2 template or logback encoder."""

    backend: Backend
    pattern: str
    python: str = ""
    java: tuple[str, ...] = ()
    encoding: str = "UTF-8"
    zone: str = "UTC"


LAYOUTS: Mapping[str, Layout] = {
    "classic": Layout(
        "reload4j",
        "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p [%t] %c - %m%n",
        "%(asctime)s %(levelname)-5s [%(threadName)s] %(name)s - %(message)s",
    ),
    "kafka-tools": Layout("reload4j", "[%d] %p %m (%c)%n", "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"),
    "short-names": Layout(
        "reload4j", "%d{ISO8601} [%t] %-5p %c{1}:%L - %m%n", "%(asctime)s %(levelname)s:%(name)s:%(message)s"
    ),
    "log4j-iso-basic": Layout("reload4j", "%d{yyyyMMdd'T'HHmmss.SSSZ} %p %c{2} [%t] %m%n"),
    "slashes": Layout(
        "reload4j",
        "%d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n",
        "%(asctime)s - %(name)s - %(levelname)s - %(message)s",
    ),
    "logback-default": Layout("logback", "%d{HH:mm:ss.SSS} [%thread] %-5level %logger{36} - %msg%n"),
    "spring-boot": Layout("logback", _BOOT),
    "spring-boot-berlin": Layout("logback", _BOOT, zone="Europe/Berlin"),
    "spring-boot-3": Layout("logback", _BOOT3, zone="America/New_York"),
    "pipes": Layout(
        "logback", "%d|%level|%thread|%logger|%msg%n", "%(asctime)s|%(levelname)s|%(threadName)s|%(name)s|%(message)s"
    ),
    "german": Layout("logback", "%d{dd.MM.yyyy HH:mm:ss.SSS} %-5level [%thread] %logger{20} - %msg%n"),
    "french-months": Layout(
        "logback", '%d{"dd MMM yyyy HH:mm:ss,SSS"} %level [%thread] %logger - %msg%n', java=("-Duser.language=fr",)
    ),
    "traced": Layout(
        "logback",
        "%d{ISO8601} %-5level [orders,%X{traceId:-},%X{spanId:-}] [%thread] %logger : %msg%n",
        "%(asctime)s %(levelname)s [orders,,] [%(threadName)s] %(name)s : %(message)s",
    ),
    "bare": Layout("logback", "%d{yyyy-MM-dd HH:mm:ss} %level %msg%n", "%(asctime)s %(levelname)s %(message)s"),
    "latin-1": Layout("logback", "%d{ISO8601} %-5level [Aufträge-%thread] %logger - %msg%n", encoding="ISO-8859-1"),
    "utf-16": Layout("logback", "%d{ISO8601} %-5level [%thread] %logger - %msg%n", encoding="UTF-16LE"),
    "crlf": Layout("logback", "%d{ISO8601} %-5level [%thread] %logger - %msg\r%n"),
    "logstash": Layout("logback", "net.logstash.logback.encoder.LogstashEncoder"),
    "log4j2-default": Layout("log4j2", "%d{HH:mm:ss.SSS} [%t] %-5level %logger{36} - %msg%n"),
    "quarkus": Layout("log4j2", "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p [%c{3}] (%t) %m%n"),
    "coloured": Layout("log4j2", "%d{ISO8601} %highlight{%-5level}{STYLE=Default} [%t] %style{%c{1.}}{cyan} %msg%n"),
    "ecs": Layout("log4j2", "classpath:EcsLayout.json"),
    "gelf": Layout("log4j2", "classpath:GelfLayout.json"),
    "log4j2-json": Layout("log4j2", "classpath:JsonLayout.json"),
    "jul": Layout("jul", ""),
    "jul-german": Layout("jul", "", java=("-Duser.language=de", "-Duser.country=DE")),
    "jul-line": Layout(
        "jul", "%1$tY-%1$tm-%1$td %1$tH:%1$tM:%1$tS.%1$tL %4$s %3$s %5$s%6$s%n", "%(levelname)s:%(name)s:%(message)s"
    ),
}


def log_configuration(layout: Layout, file: str) -> tuple[str, str, str]:
    if layout.backend == "reload4j":
        appender = "log4j.appender.f"
        lines = {
            "log4j.rootLogger": "INFO, f",
            appender: "org.apache.log4j.FileAppender",
            f"{appender}.File": file,
            f"{appender}.layout": "org.apache.log4j.EnhancedPatternLayout",
            f"{appender}.layout.ConversionPattern": layout.pattern,
        }
        text = "".join(f"{name}={value}\n" for name, value in lines.items())
        return "log4j.properties", text, "-Dlog4j.configuration=file:log4j.properties"
    if layout.backend == "logback":
        return "logback.xml", _logback(layout, file), "-Dlogback.configurationFile=logback.xml"
    if layout.backend == "log4j2":
        return "log4j2.xml", _log4j2(layout, file), "-Dlog4j2.configurationFile=log4j2.xml"
    lines = {
        "handlers": "java.util.logging.FileHandler",
        ".level": "INFO",
        "java.util.logging.FileHandler.pattern": file,
        "java.util.logging.FileHandler.append": "true",
        "java.util.logging.FileHandler.formatter": "java.util.logging.SimpleFormatter",
        "java.util.logging.FileHandler.encoding": layout.encoding,
    }
    if layout.pattern:
        lines["java.util.logging.SimpleFormatter.format"] = layout.pattern
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    return "logging.properties", text, "-Djava.util.logging.config.file=logging.properties"


def _logback(layout: Layout, file: str) -> str:
    if layout.pattern.startswith("net."):
        encoder = f'<encoder class="{layout.pattern}"/>'
    else:
        pattern = escape(layout.pattern).replace("\r", "&#13;")
        encoder = f"<encoder><charset>{layout.encoding}</charset><pattern>{pattern}</pattern></encoder>"
    return (
        '<configuration><appender name="f" class="ch.qos.logback.core.FileAppender">'
        f'<file>{file}</file>{encoder}</appender><root level="INFO"><appender-ref ref="f"/></root></configuration>'
    )


def _log4j2(layout: Layout, file: str) -> str:
    if layout.pattern.startswith("classpath:"):
        inner = f'<JsonTemplateLayout eventTemplateUri="{layout.pattern}"/>'
    else:
        inner = f'<PatternLayout disableAnsi="false"><Pattern>{escape(layout.pattern)}</Pattern></PatternLayout>'
    return (
        f'<Configuration><Appenders><File name="f" fileName="{file}">{inner}</File></Appenders>'
        '<Loggers><Root level="INFO"><AppenderRef ref="f"/></Root></Loggers></Configuration>'
    )


@dataclass(frozen=True)
class Line:
    ts_ms: int
    text: str

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.ts_ms / 1000, UTC)


def _docker(line: Line) -> str:
    return json.dumps({"log": f"{line.text}\n", "stream": "stdout", "time": f"{line.at:%Y-%m-%dT%H:%M:%S.%f}123Z"})


def _cri(line: Line) -> str:
    return f"{line.at:%Y-%m-%dT%H:%M:%S.%f}123Z stdout F {line.text}"


def _syslog(line: Line) -> str:
    return f"{line.at:%b} {line.at.day:2d} {line.at:%H:%M:%S} app-1 orders[4711]: {line.text}"


def _syslog_5424(line: Line) -> str:
    at = line.at.astimezone(timezone(timedelta(hours=2)))
    return f"<14>1 {at.isoformat(timespec='milliseconds')} app-1 orders 4711 - - {line.text}"


def _journal(line: Line) -> str:
    micros = str(line.ts_ms * 1000)
    fields = {"__REALTIME_TIMESTAMP": micros, "_HOSTNAME": "app-1", "SYSLOG_IDENTIFIER": "orders", "_PID": "4711"}
    return json.dumps({**fields, "PRIORITY": "6", "MESSAGE": line.text})


def _stern(line: Line) -> str:
    return f"orders-7d9f8b6c5-x2x7q orders {line.text}"


def _filebeat(line: Line) -> str:
    at = line.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    host = {"name": "app-1"}
    return json.dumps(
        {"@timestamp": at, "message": line.text, "host": host, "log": {"file": {"path": "/var/log/o.log"}}}
    )


WRAPPINGS: Mapping[str, Callable[[Line], str]] = {
    "docker": _docker,
    "cri": _cri,
    "syslog": _syslog,
    "syslog-5424": _syslog_5424,
    "journal": _journal,
    "stern": _stern,
    "filebeat": _filebeat,
}
