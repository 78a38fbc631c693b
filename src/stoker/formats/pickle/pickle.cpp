// Handles on the reader's nodes. Each accessor checks the kind of its node.
#include "stoker/formats/pickle/pickle.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/formats/pickle/pickle_reader.h"

namespace stoker {
namespace {

ArrayView view_of(const PickleArray& array) {
    return {.name = "", .type = array.type, .shape = {}, .fortran = array.fortran, .bytes = array.bytes};
}

}  // namespace

void PickleValue::refuse(const char* expected) const {
    throw DataError({}, {.where = "pickle", .expected = expected, .got = describe()});
}

PickleValue::Kind PickleValue::kind() const {
    return std::min(static_cast<Kind>(reader_->node(node_).tag), Kind::other);
}

std::int64_t PickleValue::integer() const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag == PickleTag::integer || node.tag == PickleTag::boolean) {
        return node.integer;
    }
    if (node.tag == PickleTag::array) {
        const PickleArray& array = reader_->array(node);
        if (!array.type.is_float() && array.bytes.size() == static_cast<std::size_t>(array.type.item_size)) {
            return integer_at(view_of(array), 0);
        }
    }
    refuse("an integer");
}

double PickleValue::real() const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag != PickleTag::real) {
        refuse("a float");
    }
    return node.real;
}

std::optional<ArrayView> PickleValue::stored_integer() const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag == PickleTag::array) {
        const PickleArray& array = reader_->array(node);
        const bool one = array.bytes.size() == static_cast<std::size_t>(array.type.item_size);
        return one && !array.type.is_float() ? std::optional(view_of(array)) : std::nullopt;
    }
    if (node.tag != PickleTag::integer) {
        return std::nullopt;
    }
    const std::span<const std::byte> opcode = reader_->from_opcode(node);
    const auto operand = [&](ArrayKind kind, int bytes, std::size_t begin = 1) {
        ArrayView view;
        view.type = {.kind = kind, .item_size = bytes};
        view.bytes = opcode.subspan(begin, static_cast<std::size_t>(bytes));
        return view;
    };
    switch (std::to_integer<char>(opcode[0])) {
        case '\x8a':  // LONG1: the length, then the number
            return opcode[1] == std::byte{8} ? std::optional(operand(ArrayKind::signed_integer, 8, 2)) : std::nullopt;
        case 'K':  // BININT1, BININT2, BININT
            return operand(ArrayKind::unsigned_integer, 1);
        case 'M':
            return operand(ArrayKind::unsigned_integer, 2);
        case 'J':
            return operand(ArrayKind::signed_integer, 4);
        default:
            return std::nullopt;
    }
}

std::string_view PickleValue::text() const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag != PickleTag::text && node.tag != PickleTag::bytes) {
        refuse("text");
    }
    return reader_->text_of(node);
}

std::span<const std::byte> PickleValue::bytes() const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag != PickleTag::bytes) {
        refuse("bytes");
    }
    return reader_->bytes_of(node);
}

ArrayView PickleValue::array() const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag != PickleTag::array) {
        refuse("a NumPy array");
    }
    const PickleArray& array = reader_->array(node);
    ArrayView view = view_of(array);
    view.shape = reader_->shape_of(array.shape);
    return view;
}

PickledTensor PickleValue::tensor() const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag != PickleTag::tensor) {
        refuse("a torch tensor");
    }
    const PickleTensor& tensor = reader_->tensor(node);
    const PickleNode& storage = reader_->node(tensor.storage);
    const PickleName& type = tensor.dtype == 0 ? *storage.name : *reader_->node(tensor.dtype).name;
    return {.storage = reader_->text_of(reader_->node(storage.link)),
            .type = type.type,
            .offset = tensor.offset,
            .shape = reader_->shape_of(tensor.shape),
            .strides = reader_->shape_of(tensor.strides)};
}

std::size_t PickleValue::size() const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag != PickleTag::list && node.tag != PickleTag::tuple && node.tag != PickleTag::dict) {
        refuse("a list, tuple or dict");
    }
    return node.tag == PickleTag::dict ? node.size / 2 : node.size;
}

PickleValue PickleValue::operator[](std::size_t at) const {
    if (at >= size()) {
        refuse("more entries");
    }
    const PickleNode& node = reader_->node(node_);
    return {*reader_, reader_->item(node, node.tag == PickleTag::dict ? 2 * at + 1 : at)};
}

PickleValue PickleValue::key(std::size_t at) const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag != PickleTag::dict || at >= node.size / 2) {
        refuse("a dict of more entries");
    }
    return {*reader_, reader_->item(node, 2 * at)};
}

std::optional<PickleValue> PickleValue::find(std::string_view key) const {
    const PickleNode& node = reader_->node(node_);
    if (node.tag != PickleTag::dict) {
        refuse("a dict");
    }
    for (std::size_t at = node.size; at >= 2; at -= 2) {
        const PickleNode& found = reader_->node(reader_->item(node, at - 2));
        if ((found.tag == PickleTag::text || found.tag == PickleTag::bytes) && reader_->text_of(found) == key) {
            return PickleValue(*reader_, reader_->item(node, at - 1));
        }
    }
    return std::nullopt;
}

void PickleValue::count_copied(std::uint64_t bytes) const {
    if (!reader_->count_copied(bytes)) {
        throw DataError({},
                        {.where = "pickle", .expected = "each value once", .got = "one list or one text many times"});
    }
}

std::string PickleValue::describe() const {
    const PickleNode& node = reader_->node(node_);
    const char* name = pickle_tag_name(node.tag);
    switch (kind()) {
        case Kind::bytes:
            return fmt::format("{} bytes", node.size);
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
            return fmt::format("{} of {}", name, size());
        case Kind::array: {
            const ArrayView view = array();
            return fmt::format("{} array of ({})", array_type_name(view.type), fmt::join(view.shape, ", "));
        }
        case Kind::tensor: {
            const PickledTensor view = tensor();
            return fmt::format("{} tensor of ({})", array_type_name(view.type), fmt::join(view.shape, ", "));
        }
        default:
            return node.tag == PickleTag::object ? std::string(reader_->text_of(node)) : name;
    }
}

Pickle::Pickle(std::string where, OtherObjects others)
    : reader_(std::make_unique<PickleReader>(std::move(where), others)) {}

Pickle::~Pickle() = default;

PickleValue Pickle::read(std::span<const std::byte> bytes) {
    return {*reader_, reader_->read(bytes)};
}

}  // namespace stoker
