"""The same three ratings in every format and archive, for tests of reading them."""

from __future__ import annotations

import zipfile
from pathlib import Path

from ncf.readers import rows, table
from ncf.readers.sources import find_sources

UTF8_BOM = b"\xef\xbb\xbf"
ROWS = [("7", "30", "100"), ("7", "4", "200"), ("10", "30", "50")]


def read(path: Path, tried: str = "auto") -> rows.Ratings:
    return table.choose(path, find_sources(path), tried).read()


def read_bytes(tmp_path: Path, content: bytes, tried: str = "auto") -> rows.Ratings:
    path = tmp_path / "table"
    path.write_bytes(content)
    return read(path, tried)


def pairs(read: rows.Ratings) -> list[tuple[str, str]]:
    return [
        (read.user_ids.text_of(user), read.item_ids.text_of(item))
        for user, item in zip(read.users, read.items, strict=True)
    ]


def make_zip(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"ml/{name}", content)
    return path


FORMATS = {
    "u.data": b"7\t30\t3\t100\n7\t4\t5\t200\n10\t30\t1\t50\n",
    "ratings.dat": b"7::30::3::100\n7::4::5::200\n10::30::1::50\n",
    "ratings.csv": b"userId,movieId,rating,timestamp\n7,30,3.0,100\n7,4,5.0,200\n10,30,0.5,50\n",
    "inter": (
        b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
        b"7\t30\t3\t100\n7\t4\t5\t200\n10\t30\t1\t50\n"
    ),
    "csv, no header": b"7,30,3,100\n7,4,5,200\n10,30,1,50\n",
    "semicolons": b"user;item;rating;time\n7;30;3,5;100\n7;4;2,5;200\n10;30;1,0;50\n",
    "semicolons, no header": b"7;30;3,5;100\n7;4;2,5;200\n10;30;1,0;50\n",
    "pipes": b"uid|iid|ts\n7|30|100\n7|4|200\n10|30|50\n",
    "tabs": b"time\tuser\titem\n100\t7\t30\n200\t7\t4\n50\t10\t30\n",
    "mark, CRLF, blanks, quotes": UTF8_BOM
    + b'\r\n "UserID" , movie_id ,"time stamp"\r\n7,30,100\r\n\r\n7,"4", 200 \r\n 10 ,30,50',
    "old Mac line ends": b"user,item,ts\r7,30,100\r7,4,200\r10,30,50\r",
    "mark, no header": UTF8_BOM + b"7,30,3,100\n7,4,5,200\n10,30,1,50",
    "quoted commas and newlines": (
        b'title,userId,itemId,timestamp\n"a, ""b""\nc",7,30,100\n"x",7,4,200\n,10,30,50\n'
    ),
    "titles that are no UTF-8": b"user,title,item,ts\n7,\xe9,30,100\n7,\xff,4,200\n10,,30,50\n",
    "a header that is no UTF-8": b"user,pr\xe9nom,item,ts\n7,a,30,100\n7,b,4,200\n10,,30,50\n",
    "floats": b"user,item,ts\n7,30,100.0\n7,4,2e2\n10,30,50.\n",
    "quoted numbers": b'"user","item","ts"\n"7","30","100"\n"7","4","200"\n"10","30","50"\n',
    "blank lines": b"\n\nuser,item,ts\n\n7,30,100\n   \n7,4,200\n10,30,50\n\n \n",
}


ML_100K = {
    "README": b"SUMMARY & USAGE LICENSE\n=====\n\nMovieLens data sets were collected\n",
    "u.data": FORMATS["u.data"],
    "u1.base": FORMATS["u.data"][:20],
    "u.item": b"1|Toy Story (1995)|01-Jan-1995||http://x|0|0\n" * 99,
    "u.user": b"1|24|M|technician|85711\n" * 99,
    "u.genre": b"unknown|0\nAction|1\n",
}
ML_1M = {
    "users.dat": b"1::F::1::10::48067\n" * 99,
    "movies.dat": b"1::Am\xe9lie (1995)::Animation|Children's\n" * 99,
    "ratings.dat": FORMATS["ratings.dat"],
}
ML_20M = {
    "tags.csv": b"userId,movieId,tag,timestamp\n18,4141,Mark Waters,1240597180\n" * 99,
    "links.csv": b"movieId,imdbId,tmdbId\n1,0114709,862\n" * 99,
    "genome-scores.csv": b"movieId,tagId,relevance\n1,1,0.025\n" * 99,
    "ratings.csv": FORMATS["ratings.csv"],
}
ML_10M = {
    "tags.dat": b"15::4973::excellent!::1215184630\n" * 99,
    "ratings.dat": FORMATS["ratings.dat"],
}
