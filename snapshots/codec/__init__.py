"""Values to JSON bytes and back, type for type: a value comes back as it was, or it is refused.

`null`, `bool`, `int`, `float`, `str`, `list` and `dict` with text keys are themselves. Everything
else is a tagged object, whose key `"$"` names its kind:

```
{"$":"int","v":"0x1f..."}                    beyond 64 bits
{"$":"float","v":"nan"}                      or "inf" or "-inf"
{"$":"tuple","v":[...]}                      likewise set and frozenset, sorted by their bytes
{"$":"dict","v":[key,value,...]}             keys that are not texts, or one that is "$";
                                             likewise ordereddict and counter
{"$":"defaultdict","factory":"list","v":[key,value,...]}
{"$":"deque","v":[...],"maxlen":8}
{"$":"bytes","v":base64}                     likewise bytearray
{"$":"decimal","v":text}                     likewise uuid
{"$":"date","v":ISO 8601}
{"$":"datetime","v":ISO 8601,"tz":zone,"fold":1}    likewise time; tz beside a zone, fold if 1
{"$":"timedelta","v":[days,seconds,us]}
{"$":"timezone","v":us,"name":text}          a fixed offset as a value, or one with a name
{"$":"zone","v":"Europe/Berlin"}
{"$":"path","class":"PosixPath","v":text}
{"$":"error","type":name,"v":message}
{"$":"enum","class":name,"v":member}         a combination of flags by its value
{"$":"object","class":name,"v":{...}}        attributes; and "base" "extra" "unset" "set"
                                             "private" "more", see snapshots.codec.anatomy
```

`class` is a name in the registry of a `Codec`, never something to import.
"""

from snapshots.codec.classes import persistent, stored_name
from snapshots.codec.coding import Codec
from snapshots.codec.faults import StoredError
from snapshots.codec.text import Fragment, Plain, dump, load

__all__ = ["Codec", "Fragment", "Plain", "StoredError", "dump", "load", "persistent", "stored_name"]
