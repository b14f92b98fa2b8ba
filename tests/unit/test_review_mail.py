"""The review is mailed through a small local mail server."""

from __future__ import annotations

import dataclasses
import email
import email.policy
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from clienthealth.model.errors import ServiceError, SettingsError
from clienthealth.review.mail import check, send
from clienthealth.review.render import write
from clienthealth.settings import ReviewSettings
from tests.support.review_example import review


class Post(socketserver.ThreadingTCPServer):
    """A mail server. `refuse` maps the beginning of a command (in lower case) to the server's error."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Talk)
        self.refuse: dict[str, str] = {}
        self.mails: list[bytes] = []


class Talk(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        post = cast(Post, self.server)
        self.say("220 post")
        while line := self.rfile.readline():
            word = line.split()[0].decode().upper()
            if answer := next((a for start, a in post.refuse.items() if line.lower().decode().startswith(start)), None):
                self.say(answer)
            elif word == "EHLO":
                self.say("250 post")
            elif word == "DATA":
                self.say("354 go on")
                text = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    text += part[1:] if part.startswith(b".") else part
                post.mails.append(text)
                self.say("250 taken")
            elif word == "QUIT":
                self.say("221 bye")
                return
            else:
                self.say("250 ok")

    def say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


@pytest.fixture
def post() -> Iterator[Post]:
    with Post() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def settings(post: Post, **changes: object) -> ReviewSettings:
    base = ReviewSettings(
        smtp_host="127.0.0.1",
        smtp_port=post.server_address[1],
        smtp_tls="none",
        mail_from="review@example.org",
        mail_to=("a@example.org", "b@example.org"),
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_the_mail_contains_the_headline_and_the_files(post: Post, tmp_path: Path) -> None:
    reviewed = review()
    files = write(reviewed, tmp_path)
    send(settings(post), reviewed, files)
    (raw,) = post.mails
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    assert mail["Subject"] == "Kafka clients: reliability review 2026-W46"
    assert mail["To"] == "a@example.org, b@example.org"
    body = mail.get_body()
    assert body is not None
    assert "No client was observed this week" in body.get_content()
    assert [part.get_filename() for part in mail.iter_attachments()] == [
        "review.html",
        "review.md",
        "review.json",
        "review-details.html",
    ]
    assert next(mail.iter_attachments()).get_content().replace("\r\n", "\n") == files[0].read_text()


@pytest.mark.parametrize(
    ("refuse", "message"),
    [
        ({"rcpt": "550 no such box"}, "refused every recipient: a@example.org, b@example.org"),
        ({"rcpt to:<b@": "550 no such box"}, "accepted the review, but refused these recipients: b@example.org"),
        ({"mail": "552 too big"}, "refused the review: 552 too big"),
        ({"data": "554 spam"}, "refused the review: 554 spam"),
    ],
)
def test_a_server_that_refuses(post: Post, tmp_path: Path, refuse: dict[str, str], message: str) -> None:
    post.refuse = refuse
    reviewed = review()
    with pytest.raises(ServiceError) as caught:
        send(settings(post), reviewed, write(reviewed, tmp_path))
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"mail server 127.0.0.1:{post.server_address[1]}")


def test_no_server(post: Post, tmp_path: Path) -> None:
    reviewed, chosen = review(), settings(post)
    post.shutdown()
    post.server_close()
    with pytest.raises(ServiceError, match="could not be sent"):
        send(chosen, reviewed, write(reviewed, tmp_path))


def test_a_server_without_tls_gets_nothing_where_tls_is_wanted(post: Post, tmp_path: Path) -> None:
    reviewed = review()
    with pytest.raises(ServiceError, match="STARTTLS"):
        send(settings(post, smtp_tls="starttls"), reviewed, write(reviewed, tmp_path))
    assert post.mails == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smtp_host": ""}, "[review] smtp_host is not set"),
        ({"mail_to": ()}, "[review] mail_to is not set"),
        ({"smtp_user": "u", "smtp_password_file": "f"}, "the password would be sent without TLS"),
    ],
)
def test_settings_that_cannot_work_are_reported_before_any_work(
    post: Post, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        check(settings(post, **changes))
    assert message in str(caught.value)
