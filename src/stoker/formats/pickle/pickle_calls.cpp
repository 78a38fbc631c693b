// The effect of REDUCE, BUILD and BINPERSID on the names of pickle_names.cpp: checks, and one node each. An array is
// filled only once, so that a short pickle cannot make many arrays of one state.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/formats/pickle/pickle_reader.h"

namespace stoker {
namespace {

constexpr std::size_t kMaxDimensions = 64;  // NumPy's limit

bool is_ascii(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte < std::byte{0x80}; });
}

// "u1", "f4": a type code and the item size.
std::optional<ArrayType> parse_type(std::string_view text) {
    return text.size() == 2 ? numpy_type(text[0], static_cast<std::uint64_t>(text[1] - '0')) : std::nullopt;
}

}  // namespace

const PickleNode& PickleReader::argument(const PickleNode& arguments, std::size_t at, PickleTag tag) const {
    if (at >= arguments.size) {
        bad(fmt::format("an argument {}", at), fmt::format("{} of them", arguments.size));
    }
    const PickleNode& found = nodes_[item(arguments, at)];
    if (found.tag != tag) {
        bad(fmt::format("a {} as argument {}", pickle_tag_name(tag), at), pickle_tag_name(found.tag));
    }
    return found;
}

bool PickleReader::is_text(std::uint32_t number, std::string_view text) const {
    const PickleNode& found = nodes_[number];
    return (found.tag == PickleTag::text || found.tag == PickleTag::bytes) && text_of(found) == text;
}

void PickleReader::check_sides(std::uint32_t tuple) const {
    const PickleNode& of = nodes_[tuple];
    if (of.tag != PickleTag::tuple || of.size > kMaxDimensions) {
        bad(fmt::format("a tuple of at most {} integers", kMaxDimensions), pickle_tag_name(of.tag));
    }
    for (std::size_t i = 0; i < of.size; ++i) {
        if (const std::int64_t side = argument(of, i, PickleTag::integer).integer; side < 0) {
            bad("non-negative sides", fmt::format("{}", side));
        }
    }
}

void PickleReader::reduce() {
    const PickleNode arguments = nodes_[pop()];
    const std::uint32_t callable = pop();
    const PickleNode called = nodes_[callable];
    if (called.tag == PickleTag::object) {
        push(same_object(callable));
        return;
    }
    if (called.tag != PickleTag::name || arguments.tag != PickleTag::tuple) {
        bad("a name and a tuple of arguments",
            fmt::format("{} and {}", pickle_tag_name(called.tag), pickle_tag_name(arguments.tag)));
    }
    push(call(*called.name, arguments));
}

std::uint32_t PickleReader::call(const PickleName& name, const PickleNode& arguments) {
    // A storage, type, class or function that is not known, or what is made of it.
    if (arguments.size > 0 && nodes_[item(arguments, 0)].tag == PickleTag::object) {
        return same_object(item(arguments, 0));
    }
    switch (name.call) {
        case PickleCall::reconstruct: {
            if (argument(arguments, 0, PickleTag::name).name->call != PickleCall::ndarray) {
                bad("numpy.ndarray as argument 0", "another name");
            }
            return add(PickleNode(PickleTag::blank_array));
        }
        case PickleCall::dtype:
            return call_dtype(arguments);
        case PickleCall::scalar:
            return call_scalar(arguments);
        case PickleCall::frombuffer:
            return call_frombuffer(arguments);
        case PickleCall::encode:
            argument(arguments, 1, PickleTag::text);
            return call_encode(item(arguments, 0), item(arguments, 1));
        case PickleCall::bytes:
            return call_bytes(arguments);
        case PickleCall::ordered_dict:
            if (arguments.size != 0) {
                unsupported("an OrderedDict with arguments");
            }
            return add_ordered_dict();
        case PickleCall::rebuild_tensor:
            return call_rebuild_tensor(arguments, /*typed=*/false);
        case PickleCall::rebuild_typed_tensor:
            return call_rebuild_tensor(arguments, /*typed=*/true);
        case PickleCall::rebuild_subclass: {  // (function, class, arguments, state)
            const PickleName& function = *argument(arguments, 0, PickleTag::name).name;
            if (function.call != PickleCall::rebuild_tensor && function.call != PickleCall::rebuild_typed_tensor) {
                bad("a function that makes a tensor", "another name");
            }
            return call(function, PickleNode(argument(arguments, 2, PickleTag::tuple)));
        }
        case PickleCall::parameter:
            argument(arguments, 0, PickleTag::tensor);
            return item(arguments, 0);
        case PickleCall::ndarray:
        case PickleCall::storage:
        case PickleCall::torch_dtype:
            break;
    }
    unsupported(fmt::format("a call of {}.{}", name.module, name.name));
}

std::uint32_t PickleReader::add_ordered_dict() {
    PickleNode node(PickleTag::dict);
    node.ordered = true;
    return add(node);
}

std::uint32_t PickleReader::call_dtype(const PickleNode& arguments) {
    if (arguments.size == 0) {
        bad("a type for numpy.dtype", "none");
    }
    const PickleNode& code = nodes_[item(arguments, 0)];
    if (code.tag != PickleTag::text && code.tag != PickleTag::bytes) {
        bad("a type for numpy.dtype as text", pickle_tag_name(code.tag));
    }
    const auto type = parse_type(text_of(code));
    if (!type) {
        return add_object(fmt::format("the NumPy type {:?}", text_of(code).substr(0, 20)));
    }
    PickleNode node(PickleTag::dtype);
    node.size = pack_type(*type);
    return add(node);
}

std::uint32_t PickleReader::call_scalar(const PickleNode& arguments) {
    argument(arguments, 1, PickleTag::bytes);
    const std::uint32_t array = add(PickleNode(PickleTag::blank_array));
    place_array(array, item(arguments, 0), kPickleEmptyTuple, false, item(arguments, 1));
    return array;
}

std::uint32_t PickleReader::call_frombuffer(const PickleNode& arguments) {
    argument(arguments, 3, PickleTag::text);
    const std::uint32_t order = item(arguments, 3);
    const bool permuted = is_text(order, "K");  // since NumPy 2.3, with the order of the axes
    if (!permuted && !is_text(order, "C") && !is_text(order, "F")) {
        bad("the order C, F or K", "another text");
    }
    const std::uint32_t array = add(PickleNode(PickleTag::blank_array));
    place_array(array, item(arguments, 1), item(arguments, 2), is_text(order, "F"), item(arguments, 0));
    if (permuted && nodes_[array].tag == PickleTag::array) {
        argument(arguments, 4, PickleTag::tuple);
        permute_array(item(arguments, 4));
    }
    return array;
}

// Puts the elements of the array that was placed last into C order. They are in C order of other axes: axis i of the
// result is axis axes[i] of those.
void PickleReader::permute_array(std::uint32_t axes) {
    PickleArray& array = arrays_.back();
    const std::size_t rank = shape_.size();
    const PickleNode order = nodes_[axes];
    std::vector<std::uint32_t> sides(rank);
    std::vector<std::size_t> steps(rank);  // in items, of each axis of the result
    std::vector<bool> used(rank);
    for (std::size_t i = 0; i < rank; ++i) {
        const std::int64_t axis = order.size == rank ? argument(order, i, PickleTag::integer).integer : -1;
        if (axis < 0 || axis >= std::ssize(shape_) || used[static_cast<std::size_t>(axis)]) {
            bad(fmt::format("an order of {} axes", rank), "another one");
        }
        const auto at = static_cast<std::size_t>(axis);
        used[at] = true;
        sides[i] = item(nodes_[array.shape], at);
        steps[i] = 1;
        for (std::size_t inner = at + 1; inner < rank; ++inner) {
            steps[i] *= static_cast<std::size_t>(shape_[inner]);
        }
    }
    permuted_bytes_ += array.bytes.size();
    if (permuted_bytes_ > bytes_.size()) {  // the same bytes for many arrays
        bad("bytes for each array", "the same for several");
    }
    const auto size = static_cast<std::size_t>(array.type.item_size);
    std::string out(array.bytes.size(), '\0');
    std::vector<std::size_t> index(rank);
    for (std::size_t to = 0; to < out.size(); to += size) {
        std::size_t from = 0;
        for (std::size_t i = 0; i < rank; ++i) {
            from += index[i] * steps[i];
        }
        std::memcpy(out.data() + to, array.bytes.data() + from * size, size);
        for (std::size_t i = rank; i-- > 0;) {
            if (++index[i] < static_cast<std::size_t>(nodes_[sides[i]].integer)) {
                break;
            }
            index[i] = 0;
        }
    }
    array.shape = add_items(PickleTag::tuple, sides);
    array.bytes = bytes_of(nodes_[add_owned(PickleTag::bytes, std::move(out))]);
}

// Encodes each text once, however often it is referred to.
std::uint32_t PickleReader::call_encode(std::uint32_t text, std::uint32_t codec) {
    if (!is_text(codec, "latin1") && !is_text(codec, "latin-1")) {
        unsupported("an encoding other than latin1");
    }
    const PickleNode from = nodes_[text];
    if (from.tag != PickleTag::text) {
        bad("text to encode", pickle_tag_name(from.tag));
    }
    if (from.link == 0) {
        std::uint32_t made = 0;
        if (is_ascii(bytes_of(from))) {
            made = add_bytes(PickleTag::bytes, bytes_of(from));
        } else if (auto encoded = latin1(text_of(from))) {
            made = add_owned(PickleTag::bytes, std::move(*encoded));
        } else {
            bad("characters of Latin-1", "others");
        }
        nodes_[text].link = made;
    }
    return nodes_[text].link;
}

std::uint32_t PickleReader::call_bytes(const PickleNode& arguments) {
    if (arguments.size == 0) {
        return add(PickleNode(PickleTag::bytes));
    }
    if (arguments.size == 2) {
        return call_encode(item(arguments, 0), item(arguments, 1));
    }
    argument(arguments, 0, PickleTag::bytes);
    return item(arguments, 0);
}

// (storage, offset, shape, strides, requires_grad, hooks), and with `typed` also (dtype).
std::uint32_t PickleReader::call_rebuild_tensor(const PickleNode& arguments, bool typed) {
    if (typed && arguments.size > 6 && nodes_[item(arguments, 6)].tag == PickleTag::object) {
        return same_object(item(arguments, 6));
    }
    argument(arguments, 0, PickleTag::storage);
    const std::int64_t offset = argument(arguments, 1, PickleTag::integer).integer;
    argument(arguments, 2, PickleTag::tuple);
    argument(arguments, 3, PickleTag::tuple);
    PickleTensor tensor{
        .storage = item(arguments, 0), .shape = item(arguments, 2), .strides = item(arguments, 3), .offset = offset};
    if (typed) {
        if (argument(arguments, 6, PickleTag::name).name->call != PickleCall::torch_dtype) {
            bad("a dtype of torch as argument 6", "another name");
        }
        tensor.dtype = item(arguments, 6);
    }
    check_sides(tensor.shape);
    check_sides(tensor.strides);
    if (nodes_[tensor.shape].size != nodes_[tensor.strides].size) {
        bad("a stride for each side", "another number");
    }
    PickleNode node(PickleTag::tensor);
    node.begin = tensors_.size();
    tensors_.push_back(tensor);
    return add(node);
}

// ("storage", torch.FloatStorage, "0", "cpu", 10)
void PickleReader::persistent() {
    const PickleNode id = nodes_[pop()];
    if (id.tag != PickleTag::tuple || id.size < 3 || !is_text(item(id, 0), "storage")) {
        bad("a reference to a torch storage", "another reference");
    }
    if (const std::uint32_t type = item(id, 1); nodes_[type].tag == PickleTag::object) {
        push(same_object(type));
        return;
    }
    const PickleName* type = argument(id, 1, PickleTag::name).name;
    if (type->call != PickleCall::storage) {
        bad("the type of a storage", "another name");
    }
    argument(id, 2, PickleTag::text);
    PickleNode node(PickleTag::storage);
    node.link = item(id, 2);
    node.name = type;
    push(add(node));
}

void PickleReader::build() {
    const PickleNode state = nodes_[pop()];
    const std::uint32_t target = top();
    const PickleNode& node = nodes_[target];
    if (node.tag == PickleTag::object ||
        (node.tag == PickleTag::dict && node.ordered && state.tag == PickleTag::dict)) {
        return;  // attributes are ignored; those of torch's state_dict are versions
    }
    if (state.tag != PickleTag::tuple) {
        bad("a tuple to fill an array or dtype with", pickle_tag_name(state.tag));
    }
    if (node.tag == PickleTag::dtype) {
        build_dtype(target, state);
    } else {
        build_array(target, state);
    }
}

// (3, "<", subarray, names, fields, size, alignment, flags)
void PickleReader::build_dtype(std::uint32_t dtype, const PickleNode& state) {
    if (state.size < 5) {
        bad("5 values or more to fill a dtype with", fmt::format("{}", state.size));
    }
    for (std::size_t at = 2; at <= 4; ++at) {
        if (nodes_[item(state, at)].tag != PickleTag::none) {
            unsupported("a NumPy type of several fields");
        }
    }
    const std::uint32_t order = item(state, 1);
    const bool big = is_text(order, ">");
    if (!big && !is_text(order, "<") && !is_text(order, "|") && !is_text(order, "=")) {
        bad("a byte order", pickle_tag_name(nodes_[order].tag));
    }
    ArrayType type = unpack_type(nodes_[dtype].size);
    type.big_endian = big && type.item_size > 1;
    nodes_[dtype].size = pack_type(type);
}

// (1, shape, dtype, fortran, bytes)
void PickleReader::build_array(std::uint32_t array, const PickleNode& state) {
    if (state.size != 5) {
        bad("5 values to fill an array with", fmt::format("{}", state.size));
    }
    const PickleNode& fortran = nodes_[item(state, 3)];
    if (fortran.tag != PickleTag::boolean && fortran.tag != PickleTag::integer) {
        bad("true or false for Fortran order", pickle_tag_name(fortran.tag));
    }
    place_array(array, item(state, 2), item(state, 1), fortran.integer != 0, item(state, 4));
}

void PickleReader::place_array(std::uint32_t array, std::uint32_t dtype, std::uint32_t shape, bool fortran,
                               std::uint32_t bytes) {
    if (nodes_[array].tag == PickleTag::blank_array && nodes_[dtype].tag == PickleTag::object) {
        nodes_[array] = nodes_[dtype];
        return;
    }
    if (nodes_[array].tag != PickleTag::blank_array || nodes_[dtype].tag != PickleTag::dtype) {
        bad("an array to fill and its dtype",
            fmt::format("{} and {}", pickle_tag_name(nodes_[array].tag), pickle_tag_name(nodes_[dtype].tag)));
    }
    const PickleNode& from = nodes_[bytes];
    if (from.tag != PickleTag::bytes) {
        bad("the bytes of an array", pickle_tag_name(from.tag));
    }
    check_sides(shape);
    const ArrayType type = unpack_type(nodes_[dtype].size);
    const PickleNode& sides = nodes_[shape];
    shape_.resize(sides.size);
    for (std::size_t i = 0; i < sides.size; ++i) {
        shape_[i] = nodes_[item(sides, i)].integer;
    }
    const std::uint64_t expected =
        with_place({.path = "", .offset = opcode_ - bytes_.data()}, [&] { return checked_array_bytes(type, shape_); });
    if (expected != from.size) {
        bad(fmt::format("{} bytes of {} ({})", expected, array_type_name(type), fmt::join(shape_, ", ")),
            fmt::format("{}", from.size));
    }
    nodes_[array].tag = PickleTag::array;
    nodes_[array].begin = arrays_.size();
    arrays_.push_back({.type = type, .fortran = fortran, .shape = shape, .bytes = bytes_of(from)});
}

}  // namespace stoker
