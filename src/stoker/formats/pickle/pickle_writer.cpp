// Uses the opcodes of Python's own pickler, without frames and memo entries, which are optional.
#include "stoker/formats/pickle/pickle_writer.h"

#include <bit>
#include <string>

#include "stoker/base/error.h"
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
constexpr char kReal = 'G';       // BINFLOAT
constexpr char kText = '\x8d';    // BINUNICODE8
constexpr char kBytes = '\x8e';   // BINBYTES8
constexpr char kGlobal = '\x93';  // STACK_GLOBAL
constexpr char kReduce = 'R';
constexpr char kBuild = 'b';
constexpr char kTuple = 't';
constexpr char kTrue = '\x88';
constexpr char kFalse = '\x89';
constexpr char kNone = 'N';

// "f4"
std::string_view numpy_name(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return "u1";
        case DType::uint16:
            return "u2";
        case DType::int16:
            return "i2";
        case DType::int32:
            return "i4";
        case DType::int64:
            return "i8";
        case DType::float16:
            return "f2";
        case DType::float32:
            return "f4";
        case DType::float64:
            return "f8";
        case DType::bfloat16:
            break;
    }
    throw InvalidArgument(
        {.where = "pickle", .expected = "a type that NumPy has", .got = std::string(dtype_name(dtype))});
}

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

void PickleWriter::real(double value) {
    op(kReal);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int i = 7; i >= 0; --i) {  // big-endian
        out_.push_back(static_cast<std::byte>(bits >> 8 * i));
    }
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
void PickleWriter::array(DType dtype, const Shape& shape, std::span<const std::byte> elements) {
    const std::string_view type = numpy_name(dtype);
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
    global("numpy", "dtype");  // such as dtype("u1", False, True), then its state
    op(kMark);
    text(type);
    op(kFalse, kTrue, kTuple, kReduce, kMark);
    integer(3);
    text(item_size(dtype) == 1 ? "|" : "<");
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
