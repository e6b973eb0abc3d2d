"""Files that may have to be fetched first; addresses that need no network stand for the others."""

import gzip
import hashlib
from pathlib import Path

import pytest

from data import remote
from data.remote import PUBLISHED, Published, content_digest, download, published_file, read_content
from tests.ett import ett_folder


@pytest.fixture
def published(tmp_path: Path) -> Published:
    download.cache_clear()
    file = tmp_path / "there.csv"
    file.write_bytes(b"date,x\n")
    return Published("here.csv", file.as_uri(), hashlib.sha256(b"date,x\n").hexdigest())


def test_a_url_is_read_and_digested_like_the_file(published: Published, tmp_path: Path) -> None:
    assert read_content(published.url) == b"date,x\n"
    assert content_digest(published.url) == content_digest(str(tmp_path / "there.csv"))
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(b"date,x\n"))
    assert read_content(packed.as_uri()) == read_content(str(packed)) == b"date,x\n"
    assert content_digest(packed.as_uri()) == content_digest(str(packed)) == published.digest


def test_a_published_file_is_fetched_once_and_kept(published: Published, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    kept = published_file(published, cache_dir=folder)
    assert (kept, Path(kept).read_bytes()) == (str(folder / "here.csv"), b"date,x\n")
    assert [file.name for file in folder.iterdir()] == ["here.csv"]
    (tmp_path / "there.csv").unlink()
    download.cache_clear()
    assert published_file(published, cache_dir=folder) == kept


def test_a_damaged_copy_is_fetched_again(published: Published, tmp_path: Path) -> None:
    (tmp_path / "here.csv").write_bytes(b"dat")
    kept = published_file(published, cache_dir=tmp_path)
    assert Path(kept).read_bytes() == b"date,x\n"


def test_without_a_folder_it_is_read_from_its_address(published: Published) -> None:
    assert published_file(published, cache_dir=None) == published.url


def test_other_content_than_the_published_is_refused(published: Published, tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_bytes(b"date,y\n")
    with pytest.raises(ValueError, match=r"not the published file .*data\.path"):
        published_file(published, cache_dir=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("url", ["file:///no/such/file.csv", "nonsense://x/y.csv"])
def test_what_cannot_be_fetched_is_one_line(url: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be fetched \(.*\); download it by hand") as error:
        read_content(url)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("source", PUBLISHED)
def test_the_files_known_are_the_published_ones(source: str) -> None:
    file = ett_folder() / PUBLISHED[source].name
    assert content_digest(str(file)) == remote.PUBLISHED[source].digest
