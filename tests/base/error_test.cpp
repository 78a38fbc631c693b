// The line that an error prints, the classes of errors, and the place of bad data.
#include "stoker/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <type_traits>

namespace stoker {
namespace {

TEST(Error, SaysWhereExpectedGotAndHint) {
    EXPECT_STREQ(InvalidArgument({.where = "crop", .expected = "size > 0", .got = "-3"}).what(),
                 "[crop] expected size > 0, got -3");
    EXPECT_STREQ(IoError({.where = "a.jpg", .expected = "a file", .got = "none", .hint = "check the path"}).what(),
                 "[a.jpg] expected a file, got none; check the path");
}

TEST(Error, StaysOneLineWhateverComesFromOutside) {
    const std::string name("a\nb\t\x7f\0c", 7);
    EXPECT_STREQ(IoError({.where = name, .expected = "x\ry", .got = "\x1b[31m", .hint = "z\n"}).what(),
                 "[a\\x0ab\\x09\\u007f\\x00c] expected x\\x0dy, got \\x1b[31m; z\\x0a");
    EXPECT_STREQ(InternalError("first\nsecond").what(), "first\\x0asecond");
    EXPECT_STREQ(InternalError("grün").what(), "grün");  // bytes of UTF-8 are not control characters
    EXPECT_STREQ(InternalError("a\xe2\x80\xae\xff").what(), "a\\u202e\\xff");
}

TEST(Error, IsOneTree) {
    static_assert(std::is_base_of_v<std::runtime_error, Error>);
    EXPECT_THROW(throw InvalidArgument("x"), Error);
    EXPECT_THROW(throw IoError("x"), Error);
    EXPECT_THROW(throw CudaError("x"), Error);
    EXPECT_THROW(throw Unsupported("x"), Error);
    EXPECT_THROW(throw InternalError("x"), Error);
    EXPECT_THROW(throw DataError({.path = "p"}, {.where = "w", .expected = "e", .got = "g"}), Error);
    static_assert(!std::is_base_of_v<IoError, DataError> && !std::is_base_of_v<DataError, IoError>);
}

std::string line(DataPlace place, const std::string& where = "reader") {
    return DataError(std::move(place), {.where = where, .expected = "x", .got = "y"}).what();
}

TEST(DataError, NamesItsPlaceAsFarAsKnown) {
    EXPECT_EQ(line({.path = "a.tar", .key = "cat/1.jpg", .offset = 512, .index = 7}),
              "[a.tar: cat/1.jpg (sample 7) @ byte 512] expected x, got y");
    EXPECT_EQ(line({.path = "a.tar"}), "[a.tar] expected x, got y");
    EXPECT_EQ(line({.path = "", .key = "1.jpg"}), "[reader: 1.jpg] expected x, got y");
    EXPECT_EQ(line({.path = "", .key = "1.jpg"}, ""), "[1.jpg] expected x, got y");
    EXPECT_EQ(line({.path = "", .offset = 0}), "[reader @ byte 0] expected x, got y");
}

TEST(DataError, LocatedFillsTheBlanksAndKeepsTheRest) {
    const DataError inner({.path = "", .key = "inner", .offset = 3},
                          {.where = "jpeg", .expected = "a marker", .got = "0x00", .hint = "repack"});
    const DataError outer = inner.located({.path = "a.stk", .key = "outer", .offset = 99, .index = 4});
    EXPECT_STREQ(outer.what(), "[a.stk: inner (sample 4) @ byte 3] expected a marker, got 0x00; repack");
    EXPECT_EQ(outer.place().path, "a.stk");
    EXPECT_EQ(outer.place().key, "inner");
    EXPECT_EQ(outer.place().offset, 3);
    EXPECT_EQ(outer.place().index, 4);
    EXPECT_EQ(outer.info().expected, "a marker");

    const DataError again = outer.located({.path = "b", .key = "b", .offset = 0, .index = 0});
    EXPECT_STREQ(again.what(), outer.what());
    EXPECT_STREQ(inner.what(), "[jpeg: inner @ byte 3] expected a marker, got 0x00; repack");
}

TEST(ErrnoError, SaysWhyInWords) {
    errno = ENOENT;
    EXPECT_STREQ(errno_error("a.jpg", "a readable file").what(),
                 "[a.jpg] expected a readable file, but it does not exist");
    EXPECT_STREQ(errno_error("x", "room to write", ENOSPC, "free some").what(),
                 "[x] expected room to write, but the disk is full; free some");
    EXPECT_EQ(errno_text(EIO), "the disk failed");
    EXPECT_EQ(errno_text(ELOOP), "its symbolic links lead in a circle");
    EXPECT_EQ(errno_text(EPROTO), "the system reports \"Protocol error\"");
}

}  // namespace
}  // namespace stoker
