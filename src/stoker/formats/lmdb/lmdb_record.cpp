// Samples are views into the value if possible. Bytes that the pickle reader had to unescape are copied, because the
// next record reuses the reader's memory.
#include "stoker/formats/lmdb/lmdb_record.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <string_view>

#include "stoker/base/error.h"
#include "stoker/base/file.h"
#include "stoker/formats/array.h"
#include "stoker/formats/image_kind.h"
#include "stoker/formats/lmdb/lmdb_fields.h"

namespace stoker {
namespace {

using Kind = PickleValue::Kind;
using namespace std::string_view_literals;

[[noreturn]] void bad(std::string expected, std::string got) {
    throw DataError({.path = "", .offset = 0},
                    {.where = "record", .expected = std::move(expected), .got = std::move(got)});
}

bool lies_in(std::span<const std::byte> part, const std::byte* begin, std::size_t size) {
    const std::less_equal<> before;
    return before(begin, part.data()) && before(part.data() + part.size(), begin + size);
}

bool overlap(std::span<const std::byte> one, std::span<const std::byte> other) {
    const std::less<> before;
    return before(one.data(), other.data() + other.size()) && before(other.data(), one.data() + one.size());
}

// Protocols 2 to 5 begin with 0x80 and the protocol. Older pickles begin with the opcode of a container, a string, a
// number or a name. All end with a full stop.
bool may_be_pickle(std::span<const std::byte> value) {
    if (value.size() < 2 || value.back() != std::byte{'.'}) {
        return false;
    }
    const char first = std::to_integer<char>(value[0]);
    return first == '\x80' ? value[1] <= std::byte{5} : "(}])cSTUVXIJKLMN"sv.find(first) != std::string_view::npos;
}

// Must be the last part of a pickle that is read: if the pickle is in the sample's storage, transposed pixels overwrite
// it.
void set_image(const PickleValue& image, Sample& sample) {
    switch (image.kind()) {
        case Kind::bytes:
            set_encoded(image.bytes(), sample);
            return;
        case Kind::text:  // bytes written by Python 2
            set_encoded(as_bytes(image.text()), sample);
            return;
        case Kind::array: {
            const ArrayView array = image.array();
            if (is_encoded_array(array)) {
                set_encoded(array.bytes, sample);
            } else {
                set_pixels(image_array(array.type, array.shape), array.fortran, array.bytes, sample);
            }
            return;
        }
        default:
            bad("an image: an array of uint8, or bytes of an encoded image", image.describe());
    }
}

bool is_integer(const PickleValue& value) {
    if (value.kind() == Kind::array) {
        const ArrayView array = value.array();
        return !array.type.is_float() && array.bytes.size() == static_cast<std::size_t>(array.type.item_size);
    }
    return value.kind() == Kind::integer || value.kind() == Kind::boolean;
}

// Returns the label's bytes in the value, if it has any.
std::optional<ArrayView> set_label(const std::optional<PickleValue>& label, Sample& sample) {
    if (!label || !is_integer(*label)) {
        return std::nullopt;
    }
    sample.label = label->integer();
    return label->stored_integer();
}

// A dict's key is text in Python 3, bytes in Python 2. Empty for other keys.
std::string_view name_of(const PickleValue& key) {
    return key.kind() == Kind::text || key.kind() == Kind::bytes ? key.text() : std::string_view();
}

void copy_to_storage(Sample& sample, std::span<const std::byte> value) {
    Buffer copy;
    // If the value is in the storage, the copy goes to separate memory.
    Buffer& out = lies_in(value, sample.storage.data(), sample.storage.capacity()) ? copy : sample.storage;
    out.resize(sample.bytes.size());
    std::memcpy(out.data(), sample.bytes.data(), sample.bytes.size());
    if (&out == &copy) {
        sample.storage = std::move(copy);
    }
    sample.bytes = sample.storage.bytes();
}

}  // namespace

void LmdbRecord::read(std::span<const std::byte> value, Sample& sample) {
    sample.label = -1;
    if (!more_.empty() && !may_be_pickle(value)) {
        bad("a pickled record with further fields", describe_bytes(value));
    }
    if (is_encoded_image(value) || is_sound(value)) {
        set_encoded(value, sample);
    } else if (may_be_pickle(value)) {
        read_pickle(value, sample);
    } else if (may_be_datum(value)) {
        read_datum(value, sample);
    } else {
        bad("an encoded image, a sound, a pickle or a Caffe Datum", describe_bytes(value));
    }
}

Field LmdbRecord::describe(std::span<const std::byte> value, const FieldRequest& request, const std::string& where) {
    if (!may_be_pickle(value)) {
        bad("a pickled record with further fields", describe_bytes(value));
    }
    return describe_entry(request, find_entry(pickle_.read(value), request.source()), where);
}

std::vector<std::string> LmdbRecord::further_names(std::span<const std::byte> value) {
    std::vector<std::string> names;
    if (!may_be_pickle(value)) {
        return names;
    }
    const PickleValue whole = pickle_.read(value);
    if (whole.kind() != Kind::dict) {
        return names;
    }
    find_names(whole);
    std::ranges::copy_if(fields_, std::back_inserter(names), [&](const std::string& name) {
        return !name.empty() && name != found_->image && name != found_->label;
    });
    return names;
}

std::string LmdbRecord::text(std::span<const std::byte> value, std::string_view name) {
    const PickleValue dict = pickle_.read(value);
    const std::optional<PickleValue> field = dict.kind() == Kind::dict ? dict.find(name) : std::nullopt;
    if (!field) {
        bad(fmt::format("a dict with {}", name), dict.describe());
    }
    return std::string(field->text());
}

void LmdbRecord::read_pickle(std::span<const std::byte> value, Sample& sample) {
    for (Known& known : known_) {
        if (known.pattern.read(value, sample)) {
            known.matched = true;
            ++compared_;
            return;
        }
    }
    const Parsed parsed = read_opcodes(value, sample);
    if (more_.empty() && learned_ < kMaxLearned && parsed.apart) {
        ++learned_;
        learn(value, sample, parsed);
    }
}

// Makes a pattern from a record that was just read, and keeps it if the inverted record is read as the pattern
// predicts.
void LmdbRecord::learn(std::span<const std::byte> value, const Sample& sample, const Parsed& parsed) {
    std::optional<RecordPattern> pattern = RecordPattern::of(value, sample, parsed.label, parsed.text);
    if (!pattern) {
        return;
    }
    Buffer storage;
    const std::span<const std::byte> inverted = pattern->inverted(value, storage);
    Sample expected;
    Sample found;
    try {
        read_opcodes(inverted, found);
    } catch (const DataError&) {
        return;
    } catch (const Unsupported&) {
        return;
    }
    const bool same = pattern->read(inverted, expected) && found.bytes.data() == expected.bytes.data() &&
                      found.bytes.size() == expected.bytes.size() && found.encoded == expected.encoded &&
                      found.height == expected.height && found.width == expected.width &&
                      found.channels == expected.channels && found.label == expected.label;
    if (!same) {
        return;
    }
    if (known_.size() < kMaxKnown) {
        known_.push_back({std::move(*pattern)});
    } else if (const auto unmatched = std::ranges::find(known_, false, &Known::matched); unmatched != known_.end()) {
        *unmatched = {std::move(*pattern)};
    }
}

// Before the image, which may replace the memory that holds the value.
void LmdbRecord::read_fields(const PickleValue& whole, Sample& sample) const {
    for (std::size_t i = 0; i < more_.size(); ++i) {
        read_entry(more_[i], find_entry(whole, wanted_.more[i].source()), sample.field(i));
    }
}

LmdbRecord::Parsed LmdbRecord::read_opcodes(std::span<const std::byte> value, Sample& sample) {
    sample.label = -1;
    Parsed parsed;
    const PickleValue whole = pickle_.read(value);
    read_fields(whole, sample);
    const bool several = whole.kind() == Kind::list || whole.kind() == Kind::tuple;
    if (whole.kind() == Kind::dict) {
        parsed = read_dict(whole, sample);
    } else if (several && whole.size() >= 1) {
        const std::size_t image = whole.size() >= 2 && is_integer(whole[0]) ? 1 : 0;
        if (whole.size() >= 2) {
            parsed.label = set_label(whole[1 - image], sample);
        }
        set_image(whole[image], sample);
    } else {
        set_image(whole, sample);
    }
    if (!lies_in(sample.bytes, value.data(), value.size()) &&
        !lies_in(sample.bytes, sample.storage.data(), sample.storage.size())) {
        copy_to_storage(sample, value);
    }
    return parsed;
}

void LmdbRecord::find_names(const PickleValue& dict) {
    bool same = found_.has_value() && fields_.size() == dict.size();
    for (std::size_t i = 0; same && i < fields_.size(); ++i) {
        same = name_of(dict.key(i)) == fields_[i];
    }
    if (!same) {
        found_.reset();
        fields_.clear();
        for (std::size_t i = 0; i < dict.size(); ++i) {
            const std::string_view name = name_of(dict.key(i));
            dict.count_copied(name.size());
            fields_.emplace_back(name);
        }
        found_ = find_fields(fields_, wanted_, split_, "");
    }
}

LmdbRecord::Parsed LmdbRecord::read_dict(const PickleValue& dict, Sample& sample) {
    find_names(dict);
    const std::optional<PickleValue> image = dict.find(found_->image);
    if (!image) {
        bad(fmt::format("a field named {}", found_->image), dict.describe());
    }
    Parsed parsed;
    if (found_->label) {
        parsed.label = set_label(dict.find(*found_->label), sample);
    }
    set_image(*image, sample);
    for (std::size_t i = 0; i < dict.size(); ++i) {
        const PickleValue field = dict[i];
        if (field.kind() == Kind::text && fields_[i] != found_->image && fields_[i] != found_->label) {
            parsed.text = field.text();
        }
    }
    for (std::size_t i = 0; i < dict.size(); ++i) {
        const auto key = as_bytes(name_of(dict.key(i)));
        parsed.apart = parsed.apart && !overlap(key, sample.bytes) && !overlap(key, as_bytes(parsed.text)) &&
                       !(parsed.label && overlap(key, parsed.label->bytes));
    }
    return parsed;
}

}  // namespace stoker
