// The stack machine behind Pickle. Values are nodes of an arena that refer to each other by number. A value that is
// referred to twice is stored once, and nothing is recursive, so cycles and deep nesting are harmless.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/formats/array.h"
#include "stoker/formats/pickle/pickle.h"

namespace stoker {

// ---- The global names that a pickle may use. It can name any function of any module; others are refused and never
// looked up. ----

enum class PickleCall : std::uint8_t {
    reconstruct,           // an empty NumPy array, which BUILD fills
    ndarray,               // only as an argument of reconstruct
    dtype,                 // numpy.dtype("u1", ...)
    scalar,                // numpy.core.multiarray.scalar(dtype, bytes)
    frombuffer,            // a NumPy array in protocol 5
    encode,                // Latin-1 text to bytes, as protocols 0 to 2 write bytes
    bytes,                 // bytes() and bytearray(...)
    ordered_dict,          // collections.OrderedDict()
    rebuild_tensor,        // a torch tensor on a storage
    rebuild_typed_tensor,  // the same for types that no storage has
    rebuild_subclass,      // a tensor of another class, such as tv_tensors.Image
    parameter,             // a torch parameter around a tensor
    storage,               // the type of a torch storage
    torch_dtype,           // only as an argument of rebuild_typed_tensor
};

struct PickleName {
    std::string_view module;
    std::string_view name;
    PickleCall call;
    ArrayType type = {};  // of a storage or torch dtype
};

// Null for every other name.
const PickleName* find_pickle_name(std::string_view module, std::string_view name);

// ---- Text (pickle_text.cpp): escapes of protocol 0, and bytes that were written as Latin-1 text ----

// The content of a string literal of Python 2's repr, given with its quotes; empty if it is not a valid literal.
std::optional<std::string> unquote(std::string_view literal);

// UTF-8 from Python's raw-unicode-escape: \uXXXX, \UXXXXXXXX, other bytes as Latin-1; empty for an incomplete escape.
std::optional<std::string> raw_unicode(std::string_view line);

// UTF-8 text as Latin-1, one byte for each character; empty for characters above U+00FF and for invalid UTF-8.
std::optional<std::string> latin1(std::string_view text);

// ---- The arena and its reader ----

// The first nodes of every arena.
inline constexpr std::uint32_t kPickleNone = 0;
inline constexpr std::uint32_t kPickleFalse = 1;
inline constexpr std::uint32_t kPickleTrue = 2;
inline constexpr std::uint32_t kPickleEmptyTuple = 3;
inline constexpr std::uint32_t kNoPickleNode = std::numeric_limits<std::uint32_t>::max();

// Begins in the order of PickleValue::Kind.
enum class PickleTag : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    bytes,
    list,
    tuple,
    dict,
    array,
    tensor,
    dtype,
    blank_array,  // created by _reconstruct, not yet filled by BUILD
    storage,
    name,
    object,  // left out; its text describes it
};

struct PickleNode {
    PickleNode() = default;
    explicit PickleNode(PickleTag kind) : tag(kind) {}

    PickleTag tag = PickleTag::none;
    bool ordered = false;    // an OrderedDict, which may get attributes
    std::uint32_t link = 0;  // text: its Latin-1 bytes (0: not encoded yet); list: capacity; storage: key
    union {
        std::int64_t integer = 0;
        double real;
        const std::byte* data;   // text, bytes and object
        std::size_t begin;       // index into items_, arrays_ or tensors_
        const PickleName* name;  // name and storage
    };
    // text, bytes, object: length; list, tuple: entries; dict: twice the pairs; dtype: packed type; integer: opcode's
    // offset.
    std::size_t size = 0;
};

struct PickleArray {
    ArrayType type;
    bool fortran = false;
    std::uint32_t shape = 0;  // a tuple of non-negative integers
    std::span<const std::byte> bytes;
};

struct PickleTensor {
    std::uint32_t storage = 0;
    std::uint32_t shape = 0;
    std::uint32_t strides = 0;
    std::uint32_t dtype = 0;  // 0: the storage's
    std::int64_t offset = 0;
};

// The stack, the memo and the arena of values.
class PickleArena {
  public:
    PickleArena(std::string where, OtherObjects others);

    const PickleNode& node(std::uint32_t number) const { return nodes_[number]; }
    std::uint32_t item(const PickleNode& of, std::size_t at) const { return items_[of.begin + at]; }
    const PickleArray& array(const PickleNode& node) const { return arrays_[node.begin]; }
    const PickleTensor& tensor(const PickleNode& node) const { return tensors_[node.begin]; }
    std::span<const std::byte> bytes_of(const PickleNode& node) const { return {node.data, node.size}; }
    std::span<const std::byte> from_opcode(const PickleNode& integer) const { return bytes_.subspan(integer.size); }
    std::string_view text_of(const PickleNode& node) const {
        return {reinterpret_cast<const char*>(node.data), node.size};
    }
    Shape shape_of(std::uint32_t tuple) const;
    // False if it is more than the bytes that were read explain.
    bool count_copied(std::uint64_t bytes) const;

  protected:
    friend struct PickleOpcodes;

    // The small functions below are inline because most opcodes do little more than call them.

    // Take operands from the bytes.
    std::span<const std::byte> take(std::uint64_t count) {
        if (count > static_cast<std::uint64_t>(end_ - at_)) {
            refuse_end(count);
        }
        at_ += count;
        return {at_ - count, static_cast<std::size_t>(count)};
    }
    [[noreturn]] void refuse_end(std::uint64_t count) const;
    template <typename Number>
    Number take_number();
    std::string_view take_line();
    std::int64_t take_decimal();
    double take_real_line();

    // The stack. Values below the last mark are out of reach.
    void push(std::uint32_t number) {
        check_growth(stack_);
        stack_.push_back(number);
    }
    std::uint32_t top() const {
        if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
            bad("a value on the stack", "none");
        }
        return stack_.back();
    }
    std::uint32_t pop() {
        const std::uint32_t number = top();
        stack_.pop_back();
        return number;
    }
    std::span<const std::uint32_t> since_mark() const {
        if (marks_.empty()) {
            bad("a mark on the stack", "none");
        }
        return std::span(stack_).subspan(marks_.back());
    }
    void drop_to_mark() {
        stack_.resize(stack_.size() - since_mark().size());
        marks_.pop_back();
    }

    // One byte of a pickle may be an empty list, so before a long vector doubles, its new size is checked against the
    // memory limit.
    template <typename Item>
    static void check_growth(const std::vector<Item>& items) {
        constexpr std::size_t kLong = (std::size_t{8} << 20) / sizeof(Item);
        if (items.size() == items.capacity() && items.size() >= kLong) [[unlikely]] {
            check_size(2 * items.size() * sizeof(Item));
        }
    }
    static void check_size(std::size_t bytes);  // throws MemoryError

    // Add nodes to the arena.
    std::uint32_t add(const PickleNode& node) {
        if (nodes_.size() == kNoPickleNode) {
            unsupported("more than 4 billion values");
        }
        check_growth(nodes_);
        nodes_.push_back(node);
        return static_cast<std::uint32_t>(nodes_.size() - 1);
    }
    std::uint32_t add_integer(std::int64_t value);
    std::uint32_t add_bytes(PickleTag tag, std::span<const std::byte> bytes);
    std::uint32_t add_owned(PickleTag tag, std::string&& text);
    std::uint32_t add_items(PickleTag tag, std::span<const std::uint32_t> items);
    void extend(std::uint32_t list, PickleTag tag, std::span<const std::uint32_t> items);
    void tuple_of_top(std::size_t count);
    void push_long(std::span<const std::byte> bytes);
    void push_name(std::string_view module, std::string_view name);
    // An object that is left out; `what` describes it. Throws Unsupported with `what` where objects are refused.
    std::uint32_t add_object(std::string what);
    std::uint32_t same_object(std::uint32_t object);
    void memoize(std::uint64_t at);
    void recall(std::uint64_t at);

    [[noreturn]] void bad(std::string_view expected, std::string_view got) const;
    [[noreturn]] void unsupported(std::string_view got) const;

    std::string where_;
    OtherObjects others_;
    std::span<const std::byte> bytes_;
    const std::byte* at_ = nullptr;
    const std::byte* end_ = nullptr;
    const std::byte* opcode_ = nullptr;  // the current one, for messages
    bool stopped_ = false;
    mutable std::uint64_t copied_ = 0;  // by the users of the values

    std::vector<PickleNode> nodes_;
    std::vector<std::uint32_t> items_;
    std::vector<PickleArray> arrays_;
    std::vector<PickleTensor> tensors_;
    std::deque<std::string> owned_;  // texts that had to be decoded; a deque keeps their addresses
    std::size_t owned_used_ = 0;
    std::size_t permuted_bytes_ = 0;  // of arrays whose elements had to be put in order

    std::vector<std::uint32_t> stack_;
    std::vector<std::size_t> marks_;
    std::vector<std::uint32_t> memo_;
    std::size_t memo_count_ = 0;
    Shape shape_;  // reused to save allocations
};

// Executes the opcodes.
class PickleReader : public PickleArena {
  public:
    using PickleArena::PickleArena;

    // Returns the root.
    std::uint32_t read(std::span<const std::byte> bytes);

  private:
    friend struct PickleOpcodes;

    // Calls of allowed names, in pickle_calls.cpp.
    void reduce();
    void build();
    void persistent();
    std::uint32_t call(const PickleName& name, const PickleNode& arguments);
    std::uint32_t add_ordered_dict();
    std::uint32_t call_dtype(const PickleNode& arguments);
    std::uint32_t call_scalar(const PickleNode& arguments);
    std::uint32_t call_frombuffer(const PickleNode& arguments);
    void permute_array(std::uint32_t axes);
    std::uint32_t call_encode(std::uint32_t text, std::uint32_t codec);
    std::uint32_t call_bytes(const PickleNode& arguments);
    std::uint32_t call_rebuild_tensor(const PickleNode& arguments, bool typed);
    void build_dtype(std::uint32_t dtype, const PickleNode& state);
    void build_array(std::uint32_t array, const PickleNode& state);
    // Fills a blank array. Throws if the number of bytes does not match type and shape.
    void place_array(std::uint32_t array, std::uint32_t dtype, std::uint32_t shape, bool fortran, std::uint32_t bytes);

    const PickleNode& argument(const PickleNode& arguments, std::size_t at, PickleTag tag) const;
    bool is_text(std::uint32_t number, std::string_view text) const;
    void check_sides(std::uint32_t tuple) const;
};

// An ArrayType packed into a number, for dtype nodes.
inline std::size_t pack_type(const ArrayType& type) {
    return static_cast<std::size_t>(type.kind) << 16 | static_cast<std::size_t>(type.item_size) << 8 |
           static_cast<std::size_t>(type.big_endian);
}

inline ArrayType unpack_type(std::size_t packed) {
    return {.kind = static_cast<ArrayKind>(packed >> 16),
            .item_size = static_cast<int>(packed >> 8 & 0xFF),
            .big_endian = (packed & 1) != 0};
}

const char* pickle_tag_name(PickleTag tag);

}  // namespace stoker
