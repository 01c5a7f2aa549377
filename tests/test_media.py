"""Folders of pictures, sounds, texts and other files: decoded on access, with their labels."""

import contextlib
import json
import os
import pickle
import random
import re
import shutil
import struct
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import dataview as dv
from dataview.formats.media import decoders, images
from dataview.sources import in_order, names_in_order, scratch

RNG = np.random.default_rng(0)


def pixels(height=4, width=5, channels=3):
    shape = (height, width, channels) if channels else (height, width)
    return RNG.integers(0, 256, shape, "u1")


def save(path, array, mode=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(array)
    (picture if mode is None else picture.convert(mode)).save(path, **options)


@pytest.fixture
def photos(tmp_path):
    """A folder with two labels, three pictures each, and what they have."""
    folder, data = tmp_path / "photos", []
    for label in ("cat", "dog"):
        for number in range(3):
            data.append(pixels())
            save(folder / label / f"{number}.png", data[-1])
    return folder, np.array(data)


@pytest.fixture
def counted(monkeypatch):
    """The paths that were decoded."""
    found = []
    decode = images.Images.decode

    def counting(self, path):
        found.append(os.path.basename(path))
        return decode(self, path)

    monkeypatch.setattr(images.Images, "decode", counting)
    return found


# -------------------- pictures --------------------


def test_a_folder_of_pictures_is_a_table(photos, counted):
    folder, data = photos
    d = dv.open(folder)
    assert d._fields() == ("image", "label", "path")
    assert len(d) == 6
    assert d.image._shape() == (6, 4, 5, 3)
    assert d.image._dtype() == np.uint8
    assert "image" in repr(d)
    assert counted == []  # shapes are read from headers
    assert d.image[3]().tolist() == data[3].tolist()
    assert counted == ["0.png"]
    np.testing.assert_array_equal(d.image(), data)
    assert d.label().tolist() == ["cat"] * 3 + ["dog"] * 3
    assert d.path().tolist() == [f"{c}/{n}.png" for c in ("cat", "dog") for n in range(3)]
    assert d.label._codes()().tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(d[d.label == "dog"].image(), data[3:])
    np.testing.assert_array_equal((d.image / 255)._mean(axis=0)(), (data / 255).mean(axis=0))


@pytest.mark.parametrize(
    "key",
    [2, slice(1, 5), slice(None, None, -1), [4, 0, 4], [5, 0, 3], [1, 1], np.arange(6) % 2 == 0],
)
def test_keys_decode_what_they_need(photos, counted, key):
    folder, data = photos
    d = dv.open(folder)
    np.testing.assert_array_equal(d.image[key](), data[key])
    assert len(counted) == len(np.unique(np.arange(6)[key]))
    np.testing.assert_array_equal(d[key].image[..., :2, 1](), data[key][..., :2, 1])


def test_pictures_of_several_sizes_are_ragged(photos, counted):
    folder, data = photos
    other = pixels(7, 5)
    save(folder / "dog" / "9.png", other)
    d = dv.open(folder)
    assert d.image._shape() == (7, None, None, 3)
    assert "files in " in repr(d.image)
    assert "files in " in str(d.image._explain())
    assert counted == []
    np.testing.assert_array_equal(d.image[6](), other)
    every = d.image()
    assert [one.shape for one in every] == [(4, 5, 3)] * 6 + [(7, 5, 3)]
    np.testing.assert_array_equal(every[2], data[2])
    np.testing.assert_array_equal(d.image[[6, 0]]()[1], data[0])
    lengths = d._map(lambda row: row.image().shape[0], shape=(), dtype=int)
    assert lengths().tolist() == [4] * 6 + [7]
    with pytest.raises(ValueError, match=r"differ in shape.*0\.png.*9\.png"):
        dv.open(folder, ragged=False)


def test_lengths_are_read_from_headers(photos, counted):
    folder, data = photos
    save(folder / "dog" / "9.png", pixels(7, 5))
    d = dv.open(folder)
    assert d.image._lengths()().tolist() == [[4, 5]] * 6 + [[7, 5]]
    assert d.image[[6, 1]]._lengths()().tolist() == [[7, 5], [4, 5]]
    padded = d.image._pad(0)
    assert counted == []
    assert padded[0]().shape == (7, 5, 3)
    assert counted == ["0.png"]
    np.testing.assert_array_equal(padded[:6]()[:, :4], data)


def test_pictures_of_one_size_can_be_ragged(photos):
    folder, data = photos
    d = dv.open(folder, ragged=True)
    assert d.image._shape() == (6, None, None, 3)
    np.testing.assert_array_equal(d.image[1](), data[1])


@pytest.mark.parametrize(
    ("mode", "shape", "dtype"),
    [
        ("L", (4, 5), "u1"),
        ("1", (4, 5), "?"),
        ("LA", (4, 5, 2), "u1"),
        ("RGBA", (4, 5, 4), "u1"),
        ("P", (4, 5), "u1"),
        ("I;16", (4, 5), "u2"),
    ],
)
def test_pictures_stay_as_they_are(tmp_path, mode, shape, dtype):
    array = pixels(channels=0).astype("u2") * 257 if mode == "I;16" else pixels(channels=3)
    save(tmp_path / "a.png", array, None if mode == "I;16" else mode)
    d = dv.open(tmp_path)
    assert d.image._shape() == (1, *shape)
    assert d.image._dtype() == np.dtype(dtype)
    with Image.open(tmp_path / "a.png") as picture:
        np.testing.assert_array_equal(d.image[0](), np.array(picture))
        told = np.array(picture.convert("RGB"))
    if mode != "I;16":
        np.testing.assert_array_equal(dv.open(tmp_path, image_mode="RGB").image[0](), told)


@pytest.mark.parametrize(
    ("modes", "channels"),
    [(("L", "RGB"), 3), (("P", "RGB"), 3), (("L", "RGBA"), 4), (("1", "L"), 0)],
)
def test_mixed_modes_become_the_one_that_holds_all(tmp_path, modes, channels):
    for number, mode in enumerate(modes):
        save(tmp_path / f"{number}.png", pixels(), mode)
    d = dv.open(tmp_path)
    assert d.image._shape() == ((2, 4, 5, channels) if channels else (2, 4, 5))
    with Image.open(tmp_path / "0.png") as picture:
        np.testing.assert_array_equal(d.image[0](), np.array(picture.convert(modes[1])))


def test_modes_that_no_other_holds_are_refused(tmp_path):
    save(tmp_path / "a.png", pixels())
    save(tmp_path / "b.png", pixels(channels=0).astype("u2"))
    with pytest.raises(ValueError, match=r"a\.png is RGB.*image_mode='I'"):
        dv.open(tmp_path)
    with pytest.raises(ValueError, match="did you mean 'RGB'"):
        dv.open(tmp_path, image_mode="rGB")


def test_no_mode_cuts_numbers_of_pictures_off(tmp_path):
    grey = pixels(channels=0)
    save(tmp_path / "a.png", grey)
    save(tmp_path / "b.png", grey.astype("u2") * 257)
    for mode in ("L", "RGB"):
        d = dv.open(tmp_path, image_mode=mode)
        assert d.image[0]().dtype == np.uint8
        with pytest.raises(ValueError, match=r"b\.png.*is I;16, of which.*image_mode='F' keeps"):
            d.image[1]()
    d = dv.open(tmp_path, image_mode="I")
    np.testing.assert_array_equal(d.image(), [grey.astype("i4"), grey.astype("i4") * 257])


def test_a_transparent_colour_is_not_lost(tmp_path):
    save(tmp_path / "a.png", pixels(), "P", transparency=0)
    assert dv.open(tmp_path).image._shape() == (1, 4, 5)
    save(tmp_path / "b.png", pixels())
    assert dv.open(tmp_path).image._shape() == (2, 4, 5, 4)


def test_pictures_stand_upright_on_request(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    array = pixels(4, 6)
    save(tmp_path / "a.png", array, exif=exif)
    save(tmp_path / "b.png", np.rot90(array, -1))  # it has no EXIF
    place = tmp_path / "b.png"
    place.write_bytes(place.read_bytes()[:-20])
    assert dv.open(tmp_path).image._shape() == (2, None, None, 3)
    d = dv.open(tmp_path, upright=True)
    assert d.image._shape() == (2, 6, 4, 3)  # what is cut off was not needed
    np.testing.assert_array_equal(d.image[0](), np.rot90(array, -1))


def test_one_picture_is_an_array(photos):
    folder, data = photos
    view = dv.open(folder / "dog" / "1.png")
    assert view._shape() == (4, 5, 3)
    assert view._meta["mode"] == "RGB"
    assert repr(view).startswith("View (4, 5, 3) uint8, 60 B, 1.png, read-only")
    np.testing.assert_array_equal(view[1:, ::2](), data[4][1:, ::2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(view))(), data[4])
    view._close()
    with pytest.raises(ValueError, match="was closed"):
        view()


# -------------------- sounds, texts, arrays --------------------


def tone(frames, channels=0):
    return RNG.uniform(-1, 1, (frames, channels) if channels else frames).astype("f4")


def test_sounds(tmp_path):
    data = {name: tone(frames) for name, frames in (("a", 50), ("b", 80))}
    for name, frames in data.items():
        soundfile.write(tmp_path / f"{name}.wav", frames, 8000, "FLOAT")
    d = dv.open(tmp_path)
    assert d._fields() == ("audio", "rate", "path")
    assert d.audio._shape() == (2, None)
    assert d.audio._dtype() == np.float32
    np.testing.assert_array_equal(d.audio[1](), data["b"])
    assert d.audio._lengths()().tolist() == [50, 80]
    assert d.rate().tolist() == [8000, 8000]
    soundfile.write(tmp_path / "a.wav", data["a"].repeat(2)[:80], 8000, "FLOAT")
    assert dv.open(tmp_path).audio._shape() == (2, 80)
    one = dv.open(tmp_path / "b.wav")
    assert one._meta["rate"] == 8000
    np.testing.assert_array_equal(one[10:20](), data["b"][10:20])


def test_sounds_of_several_channels(tmp_path):
    stereo = tone(50, 2)
    soundfile.write(tmp_path / "a.flac", stereo, 8000)
    d = dv.open(tmp_path)
    assert d.audio._shape() == (1, 50, 2)
    np.testing.assert_allclose(d.audio[0](), stereo, atol=1e-4)
    soundfile.write(tmp_path / "b.flac", tone(50), 8000)
    with pytest.raises(ValueError, match=r"numbers of channels.*mono=True"):
        dv.open(tmp_path)
    d = dv.open(tmp_path, mono=True)
    assert d.audio._shape() == (2, 50)
    np.testing.assert_allclose(d.audio[0](), stereo.mean(axis=1), atol=1e-4)


def test_texts(tmp_path):
    (tmp_path / "neg").mkdir()
    (tmp_path / "neg" / "1.txt").write_text("bad\n")
    (tmp_path / "0.txt").write_bytes("gr\u00fcn".encode("latin-1"))
    d = dv.open(tmp_path, encoding="latin-1")
    assert d.text().tolist() == ["gr\u00fcn", "bad\n"]
    assert d.label().tolist() == ["", "neg"]
    assert d.text[0]() == "gr\u00fcn"
    with pytest.raises(ValueError, match=r"0\.txt cannot be decoded.*encoding="):
        dv.open(tmp_path).text()
    with pytest.raises(ValueError, match="encoding= is one"):
        dv.open(tmp_path, encoding="latin-x")


def test_arrays_as_rows(tmp_path):
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.full((2, 2), number))
    assert dv.open(tmp_path, layout="fields")._fields() == ("0", "1", "2")
    d = dv.open(tmp_path, layout="files")
    assert d.array._shape() == (3, 2, 2)
    assert d.array[:, 0, 0]().tolist() == [0, 1, 2]
    np.save(tmp_path / "3.npy", np.zeros((5, 2), int))
    d = dv.open(tmp_path, format="media", kind="array")
    assert d.array._shape() == (4, None, 2)
    np.save(tmp_path / "4.npy", np.zeros((5, 2)))
    with pytest.raises(ValueError, match="are not alike"):
        dv.open(tmp_path, format="media")


# -------------------- which files --------------------


def test_the_order_of_files_and_what_is_passed_over(tmp_path):
    for name in ("b/2.png", "b/10.png", "b/c/1.PNG", "a/1.png", "z.png", "\u00fc/\u00e9 1.png"):
        save(tmp_path / name, pixels())
    for name in (".DS_Store", "b/Thumbs.db", "b/desktop.ini", "b/.hidden.png"):
        (tmp_path / name).write_text("")
    d = dv.open(tmp_path)
    assert d.path().tolist() == [
        "z.png", "a/1.png", "b/2.png", "b/10.png", "b/c/1.PNG", "\u00fc/\u00e9 1.png",
    ]  # fmt: skip
    assert d.label().tolist() == ["", "a", "b", "b", "b", "\u00fc"]
    assert dv.open(tmp_path, labels="last").label()[4] == "c"
    assert "label" not in dv.open(tmp_path, labels=None)._fields()
    assert d.image().shape == (6, 4, 5, 3)
    with pytest.raises(ValueError, match="labels is one of"):
        dv.open(tmp_path, labels="all")


def test_numbers_in_names_count_as_numbers_in_folders_archives_and_patterns(tmp_path):
    folder = tmp_path / "x"
    names = [f"part-{part}/{row}.txt" for part in (2, 9, 10) for row in (8, 9, 10, 100)]
    for name in reversed(names):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(name)
    shutil.make_archive(str(tmp_path / "x"), "zip", folder)
    shutil.make_archive(str(tmp_path / "x"), "tar", folder)
    assert dv.open(folder).path().tolist() == names
    assert dv.open(folder, manifest=True).path().tolist() == names
    assert dv.open(folder).path().tolist() == names
    for archive in ("x.zip", "x.tar"):
        assert dv.open(tmp_path / archive).path().tolist() == names
    assert dv.open(f"{folder}/*/*.txt")().tolist() == names
    for number in (9, 10, 2):
        np.save(folder / f"x{number}.npy", np.zeros(2))
    assert dv.open(folder, layout="fields")._fields() == ("x2", "x9", "x10")


def test_a_manifest_in_the_order_of_an_older_version_is_passed_over_with_a_warning(photos):
    folder, _ = photos
    paths = dv.open(folder, manifest=True).path().tolist()
    place = folder / ".dataview-manifest.json"
    place.write_text(place.read_text().replace('"version": 2', '"version": 1'))
    with pytest.warns(RuntimeWarning, match=r"manifest is out of date.*manifest=True makes a new"):
        assert dv.open(folder).path().tolist() == paths


@given(st.lists(st.text("a0192-.", min_size=1, max_size=6), unique=True, min_size=1))
def test_names_are_sorted_together_as_they_are_one_by_one(names):
    def key(name):
        parts = re.split("([0-9]+)", name)
        return [int(part) if place % 2 else part for place, part in enumerate(parts)], name

    assert names_in_order(names) == sorted(names, key=in_order) == sorted(names, key=key)


def test_other_files_are_told(photos):
    folder, _ = photos
    (folder / "README.md").write_text("about")
    (folder / "cat" / "data.bin").write_text("")
    d = dv.open(folder)
    assert re.search(r"\*\.md.* 1 file that kind='text' opens", repr(d))
    assert re.search(r"\*\.bin.* 1 file without a decoder", repr(d))
    assert dv.open(folder, kind="text").text().tolist() == ["about"]
    with pytest.raises(ValueError, match="would lack it"):
        d._save(folder / "copy.h5")


def test_folders_without_files_that_can_be_decoded(tmp_path):
    with pytest.raises(ValueError, match=r"files that can be opened end in"):
        dv.open(tmp_path)
    with pytest.raises(ValueError, match=r"no files that can be decoded.*register_decoder"):
        dv.open(tmp_path, format="media")
    save(tmp_path / "a.png", pixels())
    with pytest.raises(ValueError, match=r"no files of the kind 'text'; it has 1 \.png"):
        dv.open(tmp_path, kind="text")
    with pytest.raises(ValueError, match="kind is one of image, audio"):
        dv.open(tmp_path, kind="film")
    with pytest.raises(TypeError, match="no option 'mono'"):
        dv.open(tmp_path, mono=True)
    with pytest.raises(ValueError, match="cannot be changed in place"):
        dv.open(tmp_path, mode="r+")


def test_a_folder_with_the_name_of_a_file(photos):
    folder, _ = photos
    (folder / "cat" / "7.png").mkdir()
    with pytest.raises(ValueError, match=r"7\.png cannot be decoded: it is a folder"):
        dv.open(folder).image()


@pytest.mark.parametrize(
    ("library", "name", "extra"),
    [("PIL.Image", "a.png", "images"), ("soundfile", "a.wav", "audio")],
)
def test_a_library_that_is_missing_is_named_with_its_extra(
    tmp_path, monkeypatch, library, name, extra
):
    (tmp_path / name).write_bytes(b"")
    monkeypatch.setitem(sys.modules, library, None)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(ImportError, match=rf"\.\[{extra}\]"):
            dv.open(path)


def test_options_of_folders_are_refused_for_a_file(photos):
    for option in ({"labels": "last"}, {"manifest": True}, {"headers": "all"}, {"ragged": True}):
        with pytest.raises(TypeError, match=f"{next(iter(option))}= .* of folders"):
            dv.open(photos[0] / "cat" / "0.png", **option)


def test_links_in_a_ring_end(photos):
    folder, _ = photos
    (folder / "cat" / "up").symlink_to(folder, target_is_directory=True)
    assert len(dv.open(folder)) == 6


# -------------------- broken files --------------------


def test_a_broken_file_in_the_middle(photos):
    folder, data = photos
    place = folder / "cat" / "1.png"
    place.write_bytes(place.read_bytes()[:60])
    d = dv.open(folder)
    np.testing.assert_array_equal(d.image[2:](), data[2:])
    with pytest.raises(ValueError, match=r"field 'image', sample 1: .*1\.png cannot be decoded"):
        d.image()
    loader = d._loader(2, on_error="skip")
    assert sum(len(batch) for batch in loader) == 5
    place.write_bytes(b"no picture")
    assert dv.open(folder).image._shape() == (6, 4, 5, 3)
    with pytest.raises(ValueError, match=r"1\.png cannot be decoded: it is no picture"):
        dv.open(folder).image[1]()


def test_a_file_that_is_gone(photos):
    folder, _ = photos
    d = dv.open(folder)
    (folder / "dog" / "0.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"sample 3: .*0\.png is gone") as found:
        d.image()
    assert found.value.filename == str(folder / "dog" / "0.png")


def test_a_file_that_was_changed(photos):
    folder, _ = photos
    d = dv.open(folder)
    save(folder / "dog" / "0.png", pixels(9, 9))
    with pytest.raises(ValueError, match=r"0\.png .*\(9, 9, 3\).*ragged=True"):
        d.image()


def bomb(width, height):
    """A picture of very many pixels, all of which are black, in few bytes."""

    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes(1000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("size", [(10_000, 10_000), (60_000, 60_000)])
def test_a_picture_of_too_many_pixels(photos, size):
    folder, data = photos
    (folder / "cat" / "9.png").write_bytes(bomb(*size))
    d = dv.open(folder)
    np.testing.assert_array_equal(d.image[4:](), data[3:])
    with pytest.raises(ValueError, match=r"9\.png cannot be decoded.*MAX_IMAGE_PIXELS"):
        d.image[3]()


def test_a_sound_that_is_too_long(tmp_path):
    soundfile.write(tmp_path / "a.flac", np.zeros(100_000, "f4"), 8000)
    told = r"a\.flac .*400000 bytes, more than 100000.*most_bytes="
    with pytest.raises(ValueError, match=told):
        dv.open(tmp_path, most_bytes=100_000)
    soundfile.write(tmp_path / "b.flac", np.zeros(100, "f4"), 8000)
    d = dv.open(tmp_path, most_bytes=100_000)
    assert d.audio._shape() == (2, 100)
    with pytest.raises(ValueError, match=told):
        d.audio[0]()


def test_a_pipe_is_not_waited_for(photos):
    folder, _ = photos
    os.mkfifo(folder / "cat" / "7.png")
    with pytest.raises(ValueError, match=r"7\.png cannot be decoded.*is a pipe"):
        dv.open(folder).image()


CLEAN = (ValueError, OSError)


@pytest.mark.parametrize(
    "suffix", [".png", ".jpg", ".gif", ".bmp", ".tif", ".wav", ".flac", ".npy"]
)
def test_bytes_changed_at_random_give_clean_errors(tmp_path, suffix):
    chance, place = random.Random(0), tmp_path / f"a{suffix}"
    if suffix in images.SUFFIXES:
        save(place, pixels(20, 20))
    elif suffix == ".npy":
        np.save(place, tone(20))
    else:
        soundfile.write(place, tone(200), 8000)
    whole = place.read_bytes()
    for _ in range(60):
        raw = bytearray(whole)
        for _ in range(chance.choice([1, 4])):
            raw[chance.randrange(min(len(raw), 200))] = chance.randrange(256)
        place.write_bytes(raw[: chance.choice([len(raw), chance.randrange(len(raw))])])
        with contextlib.suppress(*CLEAN):
            d = dv.open(tmp_path, format="media")
            d[d._fields()[0]][0]()


# -------------------- lists --------------------


def listed(photos, text, **options):
    folder, _ = photos
    path = folder / "train.lst"
    path.write_text(text)
    return dv.open(path, format="listed", **options)


def test_a_list_of_files(photos):
    folder, data = photos
    save(folder / "a photo.png", data[0])
    d = listed(
        photos,
        """# the first ones
        dog/1.png 7

        "a photo.png" -1
        a photo.png 3
        cat/0.png\t4
        """,
    )
    assert d._fields() == ("image", "label", "path")
    assert d.label().tolist() == [7, -1, 3, 4]
    assert d.path().tolist() == ["dog/1.png", "a photo.png", "a photo.png", "cat/0.png"]
    np.testing.assert_array_equal(d.image(), data[[4, 0, 0, 0]])
    again = pickle.loads(pickle.dumps(d))
    assert again.label().tolist() == [7, -1, 3, 4]
    np.testing.assert_array_equal(again.image(), d.image())


def test_labels_of_a_list(photos):
    assert "label" not in listed(photos, "cat/0.png\ncat/1.png")._fields()
    d = listed(photos, 'cat/0.png n01 "big cat"\ncat/1.png n02 cat')
    assert d.label().tolist() == [["n01", "big cat"], ["n02", "cat"]]
    assert listed(photos, "cat/0.png 007").label().tolist() == ["007"]
    assert listed(photos, "cat/0.png, 3").label().tolist() == [3]
    assert listed(photos, "cat/0.png;big cat", separator=";").label().tolist() == ["big cat"]
    assert listed(photos, "0.png 3", root=photos[0] / "cat").label().tolist() == [3]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("cat/1.png", "it has 0 labels, and line 2 has 1"),
        ("no path here", "no path was found"),
        ('"cat/1.png 3', "a quote is not closed"),
        ("../secret.png 3", "leaves the folder"),
        ("/etc/secret.png 3", "leaves the folder"),
        ("cat/../../a.png 3", "leaves the folder"),
        ('"" 3', "leaves the folder"),
        ("\u00fc.png 3".encode("latin-1"), "can't decode byte"),
    ],
)
def test_errors_of_a_list_name_the_line(photos, line, told):
    raw = line if isinstance(line, bytes) else line.encode()
    path = photos[0] / "train.lst"
    path.write_bytes(b"# list\ncat/0.png 1\n\n" + raw + b"\n")
    with pytest.raises(ValueError, match=rf"line 4 of .*train\.lst: .*{re.escape(told)}"):
        dv.open(path, format="listed")


def test_a_file_that_a_list_names_wrongly(photos):
    d = listed(photos, "cat/0.png 1\ncat/77.png 2")
    with pytest.raises(FileNotFoundError, match=r"77\.png \(line 2 of .*train\.lst\) is gone"):
        d.image()
    with pytest.raises(ValueError, match="names no files"):
        listed(photos, "# nothing")
    d = listed(photos, "cat/0.png 1")
    raw = pickle.dumps(d)
    listed(photos, "cat/1.png 1")
    with pytest.raises(ValueError, match="was changed since"):
        pickle.loads(raw)


# -------------------- other media --------------------


def decode_lines(path):
    return np.loadtxt(path, ndmin=1)


@pytest.fixture
def registry():
    """Put back what decodes files."""
    before = dict(decoders._KINDS)
    yield
    decoders._KINDS.clear()
    decoders._KINDS.update(before)


def test_a_registered_decoder(tmp_path, registry):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.Lines").write_text("1\n2\n")
    (tmp_path / "x" / "b.lines").write_text("3\n4\n")
    with pytest.raises(ValueError, match="files that can be opened"):
        dv.open(tmp_path)
    dv.register_decoder(".lines", decode_lines, field="numbers")
    d = dv.open(tmp_path)
    assert d._fields() == ("numbers", "label", "path")
    assert d.numbers().tolist() == [[1, 2], [3, 4]]
    assert dv.open(tmp_path / "x" / "b.lines")().tolist() == [3, 4]
    dv.register_decoder(".LINES", decode_lines, lambda path: ((2,), "f8"), "numbers")
    raw = pickle.dumps(dv.open(tmp_path)._select("label"))
    assert pickle.loads(raw).label().tolist() == ["x", "x"]
    assert dv.open(tmp_path).numbers._shape() == (2, 2)
    (tmp_path / "x" / "b.lines").write_text("3\nfour\n")
    with pytest.raises(ValueError, match=r"field 'numbers', sample 1: .*b\.lines cannot be dec"):
        d.numbers()


def test_few_files_are_decoded_to_learn_what_all_are_like(tmp_path, registry):
    decoded = []

    def decode(path):
        decoded.append(path)
        return np.loadtxt(path, ndmin=1)

    for number in range(20):
        (tmp_path / f"{number:02d}.lines").write_text("1\n" * (1 + (number > 10)))
    dv.register_decoder(".lines", decode)
    d = dv.open(tmp_path)
    assert len(decoded) == 4
    assert d.data._shape() == (20, None)
    assert d.data[12]().tolist() == [1, 1]
    dv.open(tmp_path, headers="all")
    assert len(decoded) == 25


def test_decoders_that_are_refused(registry):
    for suffix in ("lines", ".tar.gz", "", 3):
        with pytest.raises(ValueError, match="a suffix is"):
            dv.register_decoder(suffix, decode_lines)
    for field in ("label", "_x", "a b"):
        with pytest.raises(ValueError, match="name of a field"):
            dv.register_decoder(".lines", decode_lines, field=field)
    with pytest.raises(TypeError, match="functions of a path"):
        dv.register_decoder(".lines", 3)


# -------------------- manifests --------------------

MANIFEST = ".dataview-manifest.json"


@pytest.fixture
def headers(monkeypatch):
    """The paths of which headers were read."""
    found = []
    read = images.Images.header

    def counting(self, path):
        found.append(os.path.basename(path))
        return read(self, path)

    monkeypatch.setattr(images.Images, "header", counting)
    return found


def test_a_manifest(photos, headers):
    folder, data = photos
    d = dv.open(folder, manifest=True)
    assert len(headers) == 6
    again = dv.open(folder)
    assert dv.open(folder, manifest=True).image._shape() == (6, 4, 5, 3)
    assert len(headers) == 6
    assert repr(again) == repr(d)
    np.testing.assert_array_equal(again.image(), data)
    assert again.label().tolist() == d.label().tolist()
    assert again.path().tolist() == d.path().tolist()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).image(), data)
    dv.open(folder, manifest=False)
    assert len(headers) == 12
    assert dv.open(folder, upright=True).image._shape() == (6, 4, 5, 3)  # it is not for that
    assert len(headers) == 18


def test_a_manifest_of_a_newer_version_says_so(photos):
    folder, _ = photos
    dv.open(folder, manifest=True)
    found = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**found, "version": found["version"] + 1}))
    told = "manifest was written by a newer dataview.*install a newer.*looked through.*=True makes"
    with pytest.warns(RuntimeWarning, match=told):
        assert len(dv.open(folder)) == 6
    assert len(dv.open(folder, manifest=True)) == 6
    assert len(dv.open(folder)) == 6


@pytest.mark.parametrize("change", ["add", "remove", "folder", "broken", "deeper"])
def test_a_manifest_that_does_not_fit(photos, change):
    folder, _ = photos
    (folder / "cat" / "old").mkdir()
    dv.open(folder, manifest=True)
    match change:
        case "add":
            save(folder / "dog" / "9.png", pixels(7, 7))
        case "deeper":
            save(folder / "cat" / "old" / "9.png", pixels(7, 7))
        case "remove":
            (folder / "cat" / "0.png").unlink()
        case "folder":
            save(folder / "owl" / "9.png", pixels(7, 7))
        case "broken":
            (folder / MANIFEST).write_bytes((folder / MANIFEST).read_bytes()[:-1])
    count = {"remove": 5, "broken": 6}.get(change, 7)
    with pytest.warns(RuntimeWarning, match="manifest is out of date.*manifest=True"):
        assert len(dv.open(folder)) == count
    assert len(dv.open(folder, manifest=False)) == count
    assert len(dv.open(folder, manifest=True)) == count
    assert len(dv.open(folder)) == count


def without_one(found):
    found["headers"] = []


def leaving(found):
    found["files"][0][0] = found["folders"][1][0] = "../dog"


def absolute(found):
    found["files"][0][0] = found["folders"][1][0] = "/etc"


def named_up(found):
    found["files"][0][1][0] = "../0.png"


def of_objects(found):
    found["headers"][0][2] = "O"


def of_no_size(found):
    found["headers"][0][1] = [-1, "x"]


def numbers(found):
    found.update(files=3, folders=[[1, 2]])


@pytest.mark.parametrize(
    "change", [without_one, leaving, absolute, named_up, of_objects, of_no_size, numbers]
)
def test_a_manifest_may_say_anything(photos, change):
    folder, _ = photos
    dv.open(folder, manifest=True)
    found = json.loads((folder / MANIFEST).read_text())
    change(found)
    (folder / MANIFEST).write_text(json.dumps(found))
    with pytest.warns(RuntimeWarning, match="out of date"):
        assert len(dv.open(folder)) == 6


def test_a_manifest_stays_if_a_new_one_is_not_made(photos, monkeypatch):
    folder, _ = photos
    dv.open(folder, manifest=True)
    before = (folder / MANIFEST).read_bytes()
    with monkeypatch.context() as broken:
        broken.setattr(images.Images, "header", lambda self, path: 1 / 0)
        with pytest.raises(ValueError, match="cannot be decoded"):
            dv.open(folder, manifest=True, upright=True)
    assert (folder / MANIFEST).read_bytes() == before
    dv.open(folder)  # the manifest fits, or there was a warning
    dv.open(folder, manifest=True, upright=True)
    dv.open(folder, kind="image", manifest=True)
    assert (folder / MANIFEST).read_bytes() == before


def test_a_manifest_of_other_kinds(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("x")
        soundfile.write(tmp_path / f"{number}.wav", tone(50 + number), 8000)
    assert dv.open(tmp_path, kind="text", manifest=True).text().tolist() == ["x"] * 3
    assert dv.open(tmp_path)._fields() == ("text", "path")
    assert dv.open(tmp_path, kind="audio").audio._shape() == (3, None)
    dv.open(tmp_path, kind="audio", manifest=True)
    assert dv.open(tmp_path).rate().tolist() == [8000] * 3
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(ValueError, match="no files of the kind 'image'"):
        dv.open(tmp_path, kind="image", manifest=True)
    assert not (tmp_path / MANIFEST).exists()


# -------------------- with everything else --------------------


def test_batches(photos):
    folder, data = photos
    d = dv.open(folder)
    for batch, start in zip(d._minibatches(2), range(0, 6, 2), strict=True):
        np.testing.assert_array_equal(batch.image(), data[start : start + 2])
    for workers in (0, 2):
        found = [batch.image() for batch in d._loader(4, workers=workers)]
        np.testing.assert_array_equal(np.concatenate(found), data)
    shuffled = d._shuffled(0)
    places = [d.path().tolist().index(path) for path in shuffled.path()]
    np.testing.assert_array_equal(shuffled.image(), data[places])
    first, rest = d._split([0.5, 0.5], seed=0)
    assert len(first) == len(rest) == 3
    assert d._map(lambda row: int(row.image().sum()), shape=(), dtype=int)().tolist() == [
        int(one.sum()) for one in data
    ]
    copy = dv.View(d._freeze())
    assert (d.image == copy.image)().all()


def test_ragged_batches(photos):
    folder, data = photos
    save(folder / "dog" / "9.png", pixels(7, 5))
    d = dv.open(folder)
    batches = [batch.image() for batch in d._loader(4, pad={"image": 0}, workers=2)]
    assert [batch.shape[1:] for batch in batches] == [(4, 5, 3), (7, 5, 3)]
    np.testing.assert_array_equal(batches[0], data[:4])
    assert d.image._pad(0)._shape()[0] == 7


@pytest.mark.parametrize("sizes", [1, 2])
def test_worker_processes(photos, sizes):
    folder, data = photos
    if sizes == 2:
        save(folder / "dog" / "9.png", pixels(7, 5))
    d = dv.open(folder)
    loader = d._loader(3, workers=2, kind="process", pad={"image": 0} if sizes == 2 else None)
    found = [batch.image()[:, :4] for batch in loader]
    np.testing.assert_array_equal(np.concatenate(found)[:6], data)


def test_texts_from_worker_processes(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(name * 40)
    loader = dv.open(tmp_path)._loader(2, workers=2, kind="process")
    assert [text for batch in loader for text in batch.text()] == ["a" * 40, "b" * 40, "c" * 40]


def test_pickles_are_small_and_find_the_same_files(photos):
    folder, data = photos
    d = dv.open(folder)
    raw = pickle.dumps(d)
    assert len(raw) < 2000
    np.testing.assert_array_equal(pickle.loads(raw).image(), data)
    save(folder / "dog" / "0a.png", data[0])
    with pytest.raises(ValueError, match="other files are in"):
        pickle.loads(raw)


def test_a_closed_folder(photos):
    folder, _ = photos
    with dv.open(folder) as d:
        d.image()
    for field in ("image", "label", "path"):
        with pytest.raises(ValueError, match="was closed"):
            d[field]()


# -------------------- very many files --------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A folder of 2,000 small pictures."""
    folder = tmp_path_factory.mktemp("many")
    save(folder / "0" / "0000.png", pixels())
    raw = (folder / "0" / "0000.png").read_bytes()
    for number in range(2000):
        place = folder / str(number % 4)
        place.mkdir(exist_ok=True)
        (place / f"{number:04d}.png").write_bytes(raw)
    return folder


def test_very_many_files_are_listed_once(many, headers, monkeypatch):
    listed = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or listdir(path))
    monkeypatch.setattr(os, "scandir", None)
    assert len(dv.open(many)) == 2000
    assert len(listed) == 5
    assert len(headers) == 32
    with pytest.raises(ValueError, match="headers is 'few' or 'all'"):
        dv.open(many, headers="some")


def test_a_file_that_is_unlike_the_few_that_were_looked_at(many, headers, monkeypatch):
    place = many / "1" / "0001a.png"
    save(place, pixels(9, 9))
    try:
        d = dv.open(many)
        assert d.image._shape() == (2001, 4, 5, 3)
        number = d.path().tolist().index("1/0001a.png")
        with pytest.raises(ValueError, match=r"0001a\.png .*headers='all'"):
            d.image[number]()
        assert dv.open(many, headers="all").image._shape() == (2001, None, None, 3)
        assert dv.open(many, ragged=True).image[number]().shape == (9, 9, 3)
        dv.open(many, manifest=True)
        headers.clear()
        monkeypatch.setattr(os, "listdir", None)
        assert dv.open(many).image._shape() == (2001, None, None, 3)
        assert headers == []
    finally:
        place.unlink()
        (many / MANIFEST).unlink(missing_ok=True)


def test_memory_of_batches_is_used_again_once_nobody_has_it(rng):
    memory, kept, places = scratch.Recycled(), [], set()
    holders = (
        lambda array: array,
        lambda array: array[::-3],
        lambda array: array.T[1],
        lambda array: memoryview(array),
        lambda array: array.reshape(-1).view("i2"),
    )

    def one(number):
        array = memory.array((scratch.SMALLEST + number % 3, 2), np.dtype("u2"))
        places.add(array.__array_interface__["data"])
        array[:] = number
        return holders[number % len(holders)](array)

    for number in range(300):
        kept.append((one(number), number))
        assert all((np.asarray(part) == value).all() for part, value in kept)
        if len(kept) > 3:
            del kept[rng.integers(3)]
    assert len(places) < 20


def test_threads_have_memory_of_their_own():
    memory, shape = scratch.Recycled(), (1000, 300)

    def filled(number):
        for _ in range(30):
            array = memory.array(shape, np.dtype("u1"))
            array[:] = number
            time.sleep(0)
            assert (array == number).all()
        return array

    with ThreadPoolExecutor(4) as pool:
        for number, array in enumerate(pool.map(filled, range(8))):
            assert (array == number).all()


def test_batches_that_are_kept_stay_as_they_are(tmp_path, rng):
    pixels = rng.integers(0, 255, (40, 160, 160, 3), dtype="u1")
    for number, picture in enumerate(pixels):
        Image.fromarray(picture).save(tmp_path / f"{number:02d}.png")
    view = dv.open(tmp_path)
    for workers in (0, 2):
        batches = [batch.image() for batch in view._loader(8, workers=workers)]
        assert (np.concatenate(batches) == pixels).all()
        for number, batch in enumerate(view._loader(8, workers=workers)):
            assert (batch.image() == pixels[8 * number :][:8]).all()
