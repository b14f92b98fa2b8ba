"""Parse thread dumps in all formats that tools write, as text or as JSON.

No function of this package raises an error, whatever the text. A dump may lack times, names and states.
"""

from __future__ import annotations

from clienthealth.read.logs.dump_formats.scan import DEADLOCK as DEADLOCK
from clienthealth.read.logs.dump_formats.scan import HOLDER as HOLDER
from clienthealth.read.logs.dump_formats.scan import LITERALS as LITERALS
from clienthealth.read.logs.dump_formats.scan import SHIPPED as SHIPPED
from clienthealth.read.logs.dump_formats.scan import dumps_in as dumps_in
from clienthealth.read.logs.dump_formats.scan import may_begin_dump as may_begin_dump
from clienthealth.read.logs.dump_formats.threads import dumps_of_document as dumps_of_document
from clienthealth.read.logs.dump_formats.threads import is_dump_document as is_dump_document
