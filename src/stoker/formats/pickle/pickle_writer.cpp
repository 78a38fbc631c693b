// Uses the opcodes of Python's own pickler, without frames and memo entries, which are optional.
#include "stoker/formats/pickle/pickle_writer.h"

#include "stoker/base/file.h"

namespace stoker {
namespace {

constexpr char kProtocol = '\x80';
constexpr char kStop = '.';
constexpr char kMark = '(';
constexpr char kEmptyDict = '}';
constexpr char kSetItems = 'u';
constexpr char kEmptyList = ']';
constexpr char kAppends = 'e';
constexpr char kLong = '\x8a';    // LONG1
constexpr char kText = '\x8d';    // BINUNICODE8
constexpr char kBytes = '\x8e';   // BINBYTES8
constexpr char kGlobal = '\x93';  // STACK_GLOBAL
constexpr char kReduce = 'R';
constexpr char kBuild = 'b';
constexpr char kTuple = 't';
constexpr char kTrue = '\x88';
constexpr char kFalse = '\x89';
constexpr char kNone = 'N';

}  // namespace

PickleWriter::PickleWriter(std::vector<std::byte>& out) : out_(out) {
    out_.clear();
    op(kProtocol, '\4');
}

void PickleWriter::number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) {
        out_.push_back(static_cast<std::byte>(value >> 8 * i));
    }
}

void PickleWriter::integer(std::int64_t value) {
    op(kLong, '\x08');
    number(static_cast<std::uint64_t>(value), 8);
}

void PickleWriter::text(std::string_view utf8) {
    op(kText);
    number(utf8.size(), 8);
    put(as_bytes(utf8));
}

void PickleWriter::bytes(std::span<const std::byte> value) {
    op(kBytes);
    number(value.size(), 8);
    put(value);
}

void PickleWriter::global(std::string_view module, std::string_view name) {
    text(module);
    text(name);
    op(kGlobal);
}

// _reconstruct(ndarray, (0,), b"b"), then its state: (version, shape, dtype, Fortran order, elements).
void PickleWriter::array_uint8(const Shape& shape, std::span<const std::byte> elements) {
    global("numpy.core.multiarray", "_reconstruct");
    op(kMark);
    global("numpy", "ndarray");
    op(kMark);
    integer(0);
    op(kTuple);
    bytes(as_bytes("b"));
    op(kTuple, kReduce, kMark);
    integer(1);
    op(kMark);
    for (const std::int64_t side : shape) {
        integer(side);
    }
    op(kTuple);
    global("numpy", "dtype");  // dtype("u1", False, True), then its state
    op(kMark);
    text("u1");
    op(kFalse, kTrue, kTuple, kReduce, kMark);
    integer(3);
    text("|");
    op(kNone, kNone, kNone);
    integer(-1);
    integer(-1);
    integer(0);
    op(kTuple, kBuild, kFalse);
    bytes(elements);
    op(kTuple, kBuild);
}

void PickleWriter::begin_dict() {
    op(kEmptyDict, kMark);
}

void PickleWriter::end_dict() {
    op(kSetItems);
}

void PickleWriter::begin_list() {
    op(kEmptyList, kMark);
}

void PickleWriter::end_list() {
    op(kAppends);
}

void PickleWriter::finish() {
    op(kStop);
}

}  // namespace stoker
