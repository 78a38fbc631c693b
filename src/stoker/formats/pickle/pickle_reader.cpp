// The table of opcodes; any other is refused. Each takes its operand from the bytes and works on the stack.
#include "stoker/formats/pickle/pickle_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/base/memory_limit.h"

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little, "pickles hold little-endian values");

constexpr int kHighestProtocol = 5;

}  // namespace

const char* pickle_tag_name(PickleTag tag) {
    constexpr const char* kTags[] = {"None", "bool",  "int",    "float", "text",           "bytes",   "list", "tuple",
                                     "dict", "array", "tensor", "dtype", "unfilled array", "storage", "name", "object"};
    return kTags[static_cast<std::size_t>(tag)];
}

PickleArena::PickleArena(std::string where, OtherObjects others)
    : where_(std::move(where)), others_(others), nodes_(kPickleEmptyTuple + 1) {
    nodes_[kPickleFalse].tag = nodes_[kPickleTrue].tag = PickleTag::boolean;
    nodes_[kPickleTrue].integer = 1;
    nodes_[kPickleEmptyTuple].tag = PickleTag::tuple;
}

void PickleArena::bad(std::string_view expected, std::string_view got) const {
    throw DataError({.path = "", .offset = opcode_ - bytes_.data()},
                    {.where = "pickle", .expected = std::string(expected), .got = std::string(got)});
}

void PickleArena::unsupported(std::string_view got) const {
    throw Unsupported({.where = where_,
                       .expected = "plain values, NumPy arrays and torch tensors",
                       .got = fmt::format("{} at byte {}", got, opcode_ - bytes_.data()),
                       .hint = "pickles are never executed: store the data in plain arrays"});
}

void PickleArena::refuse_end(std::uint64_t count) const {
    bad(fmt::format("{} more bytes", count), fmt::format("{}", end_ - at_));
}

template <typename Number>
Number PickleArena::take_number() {
    Number number{};
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
}

void PickleArena::check_size(std::size_t bytes) {
    require_memory(bytes, "pickle");
}

std::string_view PickleArena::take_line() {
    const std::string_view rest(reinterpret_cast<const char*>(at_), static_cast<std::size_t>(end_ - at_));
    const std::size_t size = rest.find('\n');
    if (size == std::string_view::npos) {
        bad("a line", "no newline");
    }
    at_ += size + 1;
    return rest.substr(0, size);
}

double PickleArena::take_real_line() {
    const std::string_view line = take_line();
    double value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc{} || end != line.data() + line.size()) {
        bad("a float", fmt::format("{} other characters", line.size()));
    }
    return value;
}

std::int64_t PickleArena::take_decimal() {
    std::string_view line = take_line();
    if (line.ends_with('L')) {
        line.remove_suffix(1);
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error == std::errc::result_out_of_range) {
        unsupported("an integer of more than 64 bits");
    }
    if (error != std::errc{} || end != line.data() + line.size()) {
        bad("a decimal number", fmt::format("{} other characters", line.size()));
    }
    return value;
}

std::uint32_t PickleArena::add_integer(std::int64_t value) {
    PickleNode node(PickleTag::integer);
    node.integer = value;
    node.size = static_cast<std::size_t>(opcode_ - bytes_.data());
    return add(node);
}

std::uint32_t PickleArena::add_bytes(PickleTag tag, std::span<const std::byte> bytes) {
    PickleNode node(tag);
    node.data = bytes.data();
    node.size = bytes.size();
    return add(node);
}

std::uint32_t PickleArena::add_owned(PickleTag tag, std::string&& text) {
    if (owned_used_ == owned_.size()) {
        owned_.emplace_back();
    }
    std::string& kept = owned_[owned_used_++];
    kept = std::move(text);
    return add_bytes(tag, std::as_bytes(std::span(kept.data(), kept.size())));
}

std::uint32_t PickleArena::add_items(PickleTag tag, std::span<const std::uint32_t> items) {
    const std::uint32_t number = add(PickleNode(tag));
    extend(number, tag, items);
    return number;
}

// A list that is not the last one in `items_` is moved to the end, with its capacity doubled.
void PickleArena::extend(std::uint32_t list, PickleTag tag, std::span<const std::uint32_t> items) {
    PickleNode& node = nodes_[list];
    if (node.tag == PickleTag::object) {
        return;
    }
    if (node.tag != tag) {
        bad(fmt::format("a {} to add to", pickle_tag_name(tag)), pickle_tag_name(node.tag));
    }
    const std::size_t needed = node.size + items.size();
    if (needed > kNoPickleNode / 2) {
        unsupported("more than 2 billion entries");
    }
    if (needed > node.link) {
        std::size_t room = needed;
        if (node.link == 0) {
            node.begin = items_.size();
        } else if (node.begin + node.link != items_.size()) {
            room = std::max<std::size_t>(needed, 2 * node.size);
            const std::size_t begin = items_.size();
            if (begin + room > items_.capacity()) {
                check_size(2 * (begin + room) * sizeof(std::uint32_t));
            }
            items_.resize(begin + room);
            std::copy_n(items_.begin() + static_cast<std::ptrdiff_t>(node.begin), node.size,
                        items_.begin() + static_cast<std::ptrdiff_t>(begin));
            node.begin = begin;
        }
        if (node.begin + room > items_.capacity()) {
            check_size(2 * (node.begin + room) * sizeof(std::uint32_t));
        }
        items_.resize(node.begin + room);
        node.link = static_cast<std::uint32_t>(room);
    }
    std::ranges::copy(items, items_.begin() + static_cast<std::ptrdiff_t>(node.begin + node.size));
    node.size = needed;
}

void PickleArena::tuple_of_top(std::size_t count) {
    if (stack_.size() - (marks_.empty() ? std::size_t{0} : marks_.back()) < count) {
        bad(fmt::format("{} values on the stack", count), "fewer");
    }
    const std::uint32_t tuple = add_items(PickleTag::tuple, std::span(stack_).last(count));
    stack_.resize(stack_.size() - count);
    push(tuple);
}

void PickleArena::push_long(std::span<const std::byte> bytes) {
    if (bytes.size() > sizeof(std::int64_t)) {
        push(add_object(fmt::format("an integer of {} bytes", bytes.size())));
        return;
    }
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    const auto unused = static_cast<int>(64 - 8 * bytes.size());
    push(add_integer(bytes.empty() ? 0 : static_cast<std::int64_t>(value << unused) >> unused));
}

void PickleArena::push_name(std::string_view module, std::string_view name) {
    const PickleName* found = find_pickle_name(module, name);
    if (found == nullptr) {
        constexpr std::size_t kShown = 60;
        const std::string full = fmt::format("{}.{}", module.substr(0, kShown), name.substr(0, kShown));
        push(add_object(others_ == OtherObjects::refused ? fmt::format("the name {:?}", full)
                                                         : fmt::format("object of {}", full)));
        return;
    }
    PickleNode node(PickleTag::name);
    node.name = found;
    push(add(node));
}

std::uint32_t PickleArena::add_object(std::string what) {
    if (others_ == OtherObjects::refused) {
        unsupported(what);
    }
    return add_owned(PickleTag::object, std::move(what));
}

std::uint32_t PickleArena::same_object(std::uint32_t object) {
    return add_bytes(PickleTag::object, bytes_of(nodes_[object]));
}

// Python numbers memo entries consecutively, so a number beyond the pickle's size is an attempt to claim memory.
void PickleArena::memoize(std::uint64_t at) {
    const std::uint32_t value = top();
    if (at >= memo_.size()) {
        if (at >= bytes_.size()) {
            bad("a memo index below the pickle's size", fmt::format("{}", at));
        }
        if (at >= memo_.capacity()) {
            check_size(2 * static_cast<std::size_t>(at) * sizeof(std::uint32_t));
        }
        memo_.resize(static_cast<std::size_t>(at) + 1, kNoPickleNode);
    }
    memo_count_ += memo_[at] == kNoPickleNode ? 1U : 0U;
    memo_[at] = value;
}

void PickleArena::recall(std::uint64_t at) {
    if (at >= memo_.size() || memo_[at] == kNoPickleNode) {
        bad("a memo index in use", fmt::format("{}", at));
    }
    push(memo_[at]);
}

Shape PickleArena::shape_of(std::uint32_t tuple) const {
    const PickleNode& from = nodes_[tuple];
    Shape shape(from.size);
    for (std::size_t i = 0; i < shape.size(); ++i) {
        shape[i] = nodes_[item(from, i)].integer;
    }
    return shape;
}

struct PickleOpcodes {
    using Reader = PickleReader;
    using Opcode = void (*)(Reader&);
    using Table = std::array<Opcode, 256>;

    static void push_string(Reader& r) {
        const std::string_view line = r.take_line();
        auto text = unquote(line);
        if (!text) {
            r.bad("a quoted string", "another line");
        }
        const bool plain = line.find('\\') == std::string_view::npos;
        r.push(plain ? r.add_bytes(PickleTag::bytes, as_bytes(line.substr(1, text->size())))
                     : r.add_owned(PickleTag::bytes, std::move(*text)));
    }

    static void push_unicode(Reader& r) {
        const std::string_view line = r.take_line();
        auto text = raw_unicode(line);
        if (!text) {
            r.bad("text with complete escapes", "an incomplete one");
        }
        r.push(*text == line ? r.add_bytes(PickleTag::text, as_bytes(line))
                             : r.add_owned(PickleTag::text, std::move(*text)));
    }

    static void push_integer_line(Reader& r) {
        const bool boolean =
            r.end_ - r.at_ >= 3 && std::to_integer<char>(r.at_[0]) == '0' && std::to_integer<char>(r.at_[2]) == '\n';
        const std::int64_t value = r.take_decimal();
        r.push(!boolean || value > 1 ? r.add_integer(value) : value != 0 ? kPickleTrue : kPickleFalse);
    }

    static void push_real(Reader& r, double value) {
        PickleNode node(PickleTag::real);
        node.real = value;
        r.push(r.add(node));
    }

    template <typename Length>
    static std::span<const std::byte> take_bytes(Reader& r) {
        const auto length = r.take_number<Length>();
        if (std::is_signed_v<Length> && length < 0) {
            r.bad("a non-negative length", fmt::format("{}", length));
        }
        return r.take(static_cast<std::uint64_t>(length));
    }

    template <typename Length>
    static void push_bytes(Reader& r, PickleTag tag) {
        r.push(r.add_bytes(tag, take_bytes<Length>(r)));
    }

    static void items_from_mark(Reader& r, PickleTag tag) {
        check_pairs(r, tag, r.since_mark().size());
        const std::uint32_t number = r.add_items(tag, r.since_mark());
        r.drop_to_mark();
        r.push(number);
    }

    static void extend_from_mark(Reader& r, PickleTag tag) {
        const auto items = r.since_mark();
        check_pairs(r, tag, items.size());
        const std::size_t fence = r.marks_.size() > 1 ? r.marks_[r.marks_.size() - 2] : 0;
        if (r.marks_.back() <= fence) {
            r.bad(fmt::format("a {} below the mark", pickle_tag_name(tag)), "nothing");
        }
        r.extend(r.stack_[r.marks_.back() - 1], tag, items);
        r.drop_to_mark();
    }

    static void extend_by(Reader& r, PickleTag tag, std::size_t count) {
        std::array<std::uint32_t, 2> items{};
        for (std::size_t i = count; i-- > 0;) {
            items[i] = r.pop();
        }
        r.extend(r.top(), tag, std::span(items).first(count));
    }

    static void check_pairs(const Reader& r, PickleTag tag, std::size_t count) {
        if (tag == PickleTag::dict && count % 2 != 0) {
            r.bad("a value for each key of a dict", "a key without one");
        }
    }

    // Sets, whose entries nobody needs. `add`: to the set below the mark.
    static void set_from_mark(Reader& r, bool add) {
        r.since_mark();
        r.drop_to_mark();
        if (add) {
            r.extend(r.top(), PickleTag::object, {});
        } else {
            r.push(r.add_object("a set"));
        }
    }

    // NEWOBJ_EX: a class, its arguments and its named arguments.
    static void new_object(Reader& r) {
        r.pop();
        r.pop();
        const std::uint32_t made = r.pop();
        if (r.nodes_[made].tag != PickleTag::object) {
            r.unsupported("the opcode 0x92");
        }
        r.push(r.same_object(made));
    }

    static void pop(Reader& r) {
        if (!r.marks_.empty() && r.marks_.back() == r.stack_.size()) {
            r.marks_.pop_back();
        } else {
            r.pop();
        }
    }

    static void protocol(Reader& r) {
        const int protocol = r.take_number<std::uint8_t>();
        if (protocol > kHighestProtocol) {
            r.unsupported(fmt::format("pickle protocol {}", protocol));
        }
    }

    static void frame(Reader& r) {
        const auto length = r.take_number<std::uint64_t>();
        if (length > static_cast<std::uint64_t>(r.end_ - r.at_)) {
            r.bad("a frame within the pickle", fmt::format("{} bytes", length));
        }
    }

    static void global(Reader& r) {
        const std::string_view module = r.take_line();
        r.push_name(module, r.take_line());
    }

    static void stack_global(Reader& r) {
        const PickleNode& name = r.nodes_[r.pop()];
        const PickleNode& module = r.nodes_[r.pop()];
        if (name.tag != PickleTag::text || module.tag != PickleTag::text) {
            r.bad("a module and a name as text", pickle_tag_name(name.tag));
        }
        r.push_name(r.text_of(module), r.text_of(name));
    }

    static constexpr void fill_literals(Table& table) {
        table['N'] = [](Reader& r) { r.push(kPickleNone); };
        table[0x88] = [](Reader& r) { r.push(kPickleTrue); };
        table[0x89] = [](Reader& r) { r.push(kPickleFalse); };
        table['I'] = push_integer_line;
        table['J'] = [](Reader& r) { r.push(r.add_integer(r.take_number<std::int32_t>())); };
        table['K'] = [](Reader& r) { r.push(r.add_integer(r.take_number<std::uint8_t>())); };
        table['L'] = [](Reader& r) { r.push(r.add_integer(r.take_decimal())); };
        table['M'] = [](Reader& r) { r.push(r.add_integer(r.take_number<std::uint16_t>())); };
        table[0x8a] = [](Reader& r) { r.push_long(take_bytes<std::uint8_t>(r)); };
        table[0x8b] = [](Reader& r) { r.push_long(take_bytes<std::int32_t>(r)); };
        table['F'] = [](Reader& r) { push_real(r, r.take_real_line()); };
        table['G'] = [](Reader& r) {  // big-endian
            std::uint64_t bits = 0;
            for (const std::byte byte : r.take(sizeof bits)) {
                bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
            }
            push_real(r, std::bit_cast<double>(bits));
        };
        table['S'] = push_string;
        table['T'] = [](Reader& r) { push_bytes<std::int32_t>(r, PickleTag::bytes); };
        table['U'] = [](Reader& r) { push_bytes<std::uint8_t>(r, PickleTag::bytes); };
        table['V'] = push_unicode;
        table['X'] = [](Reader& r) { push_bytes<std::uint32_t>(r, PickleTag::text); };
        table[0x8c] = [](Reader& r) { push_bytes<std::uint8_t>(r, PickleTag::text); };
        table[0x8d] = [](Reader& r) { push_bytes<std::uint64_t>(r, PickleTag::text); };
        table['B'] = [](Reader& r) { push_bytes<std::uint32_t>(r, PickleTag::bytes); };
        table['C'] = [](Reader& r) { push_bytes<std::uint8_t>(r, PickleTag::bytes); };
        table[0x8e] = [](Reader& r) { push_bytes<std::uint64_t>(r, PickleTag::bytes); };
        table[0x96] = [](Reader& r) { push_bytes<std::uint64_t>(r, PickleTag::bytes); };
    }

    static constexpr void fill_containers(Table& table) {
        table['('] = [](Reader& r) { r.marks_.push_back(r.stack_.size()); };
        table['0'] = pop;
        table['1'] = [](Reader& r) { r.drop_to_mark(); };
        table['2'] = [](Reader& r) { r.push(r.top()); };
        table[']'] = [](Reader& r) { r.push(r.add(PickleNode(PickleTag::list))); };
        table['}'] = [](Reader& r) { r.push(r.add(PickleNode(PickleTag::dict))); };
        table[')'] = [](Reader& r) { r.push(kPickleEmptyTuple); };
        table['l'] = [](Reader& r) { items_from_mark(r, PickleTag::list); };
        table['d'] = [](Reader& r) { items_from_mark(r, PickleTag::dict); };
        table['t'] = [](Reader& r) { items_from_mark(r, PickleTag::tuple); };
        table[0x85] = [](Reader& r) { r.tuple_of_top(1); };
        table[0x86] = [](Reader& r) { r.tuple_of_top(2); };
        table[0x87] = [](Reader& r) { r.tuple_of_top(3); };
        table['a'] = [](Reader& r) { extend_by(r, PickleTag::list, 1); };
        table['s'] = [](Reader& r) { extend_by(r, PickleTag::dict, 2); };
        table['e'] = [](Reader& r) { extend_from_mark(r, PickleTag::list); };
        table['u'] = [](Reader& r) { extend_from_mark(r, PickleTag::dict); };
    }

    static constexpr void fill_others(Table& table) {
        table[0x80] = protocol;
        table[0x95] = frame;
        table['.'] = [](Reader& r) { r.stopped_ = true; };
        table['g'] = [](Reader& r) { r.recall(static_cast<std::uint64_t>(r.take_decimal())); };
        table['h'] = [](Reader& r) { r.recall(r.take_number<std::uint8_t>()); };
        table['j'] = [](Reader& r) { r.recall(r.take_number<std::uint32_t>()); };
        table['p'] = [](Reader& r) { r.memoize(static_cast<std::uint64_t>(r.take_decimal())); };
        table['q'] = [](Reader& r) { r.memoize(r.take_number<std::uint8_t>()); };
        table['r'] = [](Reader& r) { r.memoize(r.take_number<std::uint32_t>()); };
        table[0x94] = [](Reader& r) { r.memoize(r.memo_count_); };
        table['c'] = global;
        table[0x93] = stack_global;
        table['R'] = [](Reader& r) { r.reduce(); };
        table[0x81] = [](Reader& r) { r.reduce(); };
        table[0x92] = new_object;
        table[0x8f] = [](Reader& r) { r.push(r.add_object("a set")); };
        table[0x90] = [](Reader& r) { set_from_mark(r, /*add=*/true); };
        table[0x91] = [](Reader& r) { set_from_mark(r, /*add=*/false); };
        table['b'] = [](Reader& r) { r.build(); };
        table['Q'] = [](Reader& r) { r.persistent(); };
    }

    static constexpr Table table() {
        Table table{};
        fill_literals(table);
        fill_containers(table);
        fill_others(table);
        return table;
    }
};

bool PickleArena::count_copied(std::uint64_t bytes) const {
    constexpr std::uint64_t kTimes = 8;  // some values are read twice, to describe them and then for a sample
    constexpr std::uint64_t kFew = std::uint64_t{1} << 20;
    const std::uint64_t most = kTimes * bytes_.size() + kFew;
    copied_ = bytes > most - std::min(copied_, most) ? most + 1 : copied_ + bytes;
    return copied_ <= most;
}

std::uint32_t PickleReader::read(std::span<const std::byte> bytes) {
    static constexpr PickleOpcodes::Table kOpcodes = PickleOpcodes::table();
    bytes_ = bytes;
    at_ = opcode_ = bytes.data();
    end_ = at_ + bytes.size();
    stopped_ = false;
    copied_ = 0;
    owned_used_ = 0;
    permuted_bytes_ = 0;
    memo_count_ = 0;
    items_.clear();
    arrays_.clear();
    tensors_.clear();
    stack_.clear();
    marks_.clear();
    memo_.clear();
    nodes_.resize(kPickleEmptyTuple + 1);
    while (!stopped_) {
        opcode_ = at_;
        if (at_ == end_) {
            bad("the opcode STOP", "the end of the bytes");
        }
        const auto code = std::to_integer<std::uint8_t>(*at_++);
        if (kOpcodes[code] == nullptr) {
            unsupported(fmt::format("the opcode {:#04x}", code));
        }
        kOpcodes[code](*this);
    }
    return pop();
}

}  // namespace stoker
