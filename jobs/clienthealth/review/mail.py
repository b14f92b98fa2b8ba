"""Send the weekly review by e-mail, with the review's headline as the text and its files as attachments."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path

from clienthealth.model.errors import ServiceError, SettingsError
from clienthealth.platform.secrecy import secret_in
from clienthealth.review.clusters import Clusters
from clienthealth.review.model import Review
from clienthealth.review.render import title
from clienthealth.settings import ReviewSettings

TIMEOUT_SECONDS = 30
KINDS = {".html": ("text", "html"), ".md": ("text", "markdown"), ".json": ("application", "json")}


def check(settings: ReviewSettings) -> None:
    """Raise SettingsError if smtp_host, mail_from or mail_to is not set."""
    for key in ("smtp_host", "mail_from", "mail_to"):
        if not getattr(settings, key):
            raise SettingsError(f"[review] {key} is not set: set it to send the review by e-mail")


def message(settings: ReviewSettings, review: Review | Clusters, files: Sequence[Path]) -> EmailMessage:
    """Return a mail with the review's headline as its text, and with `files` attached."""
    mail = EmailMessage()
    mail["Subject"] = f"Kafka clients: reliability review {review.period.label}"
    mail["From"] = settings.mail_from
    mail["To"] = ", ".join(settings.mail_to)
    mail["Date"] = formatdate()
    mail["Message-ID"] = make_msgid(domain=settings.mail_from.rpartition("@")[2] or "localhost")
    answers = [f"{question}\n{sentence}\n" for question, sentence in review.answers]
    mail.set_content("\n".join([title(review.period), "", *answers, "The whole review is attached.", ""]))
    for file in files:
        main, sub = KINDS[file.suffix]
        mail.add_attachment(
            file.read_bytes(), maintype=main, subtype=sub, filename=file.name, params={"charset": "utf-8"}
        )
    return mail


def send(settings: ReviewSettings, review: Review | Clusters, files: Sequence[Path]) -> None:
    """Send the review as the mail that the function `message` makes.

    Raises SettingsError if settings or the password file are missing, and ServiceError if the mail server cannot be
    reached or refuses a recipient.
    """
    check(settings)
    mail = message(settings, review, files)
    where = f"mail server {settings.smtp_host}:{settings.smtp_port}"
    try:
        with _connect(settings) as server:
            if settings.smtp_user:
                file = settings.smtp_password_file
                server.login(settings.smtp_user, secret_in(file, f"[review] smtp_password_file {file}"))
            refused = server.send_message(mail)
    except smtplib.SMTPAuthenticationError as error:
        raise ServiceError(f"{where} refused user '{settings.smtp_user}': {_reply(error)}") from error
    except smtplib.SMTPRecipientsRefused as error:
        raise ServiceError(f"{where} refused every recipient: {', '.join(error.recipients)}") from error
    except smtplib.SMTPResponseException as error:
        raise ServiceError(f"{where} refused the review: {_reply(error)}") from error
    except (smtplib.SMTPException, OSError) as error:
        raise ServiceError(f"{where}: the review could not be sent: {error}") from error
    if refused:
        raise ServiceError(f"{where} accepted the review, but refused these recipients: {', '.join(sorted(refused))}")


def _connect(settings: ReviewSettings) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if settings.smtp_tls == "tls":
        return smtplib.SMTP_SSL(settings.smtp_host, settings.smtp_port, timeout=TIMEOUT_SECONDS, context=context)
    server = smtplib.SMTP(settings.smtp_host, settings.smtp_port, timeout=TIMEOUT_SECONDS)
    if settings.smtp_tls == "starttls":
        try:
            server.starttls(context=context)
        except BaseException:
            server.close()
            raise
    return server


def _reply(error: smtplib.SMTPResponseException) -> str:
    text = error.smtp_error
    return f"{error.smtp_code} {text.decode(errors='replace') if isinstance(text, bytes) else text}"
