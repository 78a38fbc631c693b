// Arbitrary bytes as a tar archive: the parser throws nothing but DataError and Unsupported, finds the same members for
// every read size, and an index built from them can be parsed.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fuzz/promise.h"
#include "stoker/base/error.h"
#include "stoker/formats/webdataset/sample_grouper.h"
#include "stoker/formats/webdataset/tar_index.h"

namespace {

using namespace stoker;
using stoker::fuzz::require;

class Input final : public ByteFile {
  public:
    explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::uint64_t size() const override { return bytes_.size(); }
    void read(std::uint64_t offset, std::span<std::byte> out) const override {
        require(offset <= bytes_.size() && out.size() <= bytes_.size() - offset);
        std::ranges::copy(bytes_.subspan(offset, out.size()), out.begin());
    }
    const std::string& name() const override { return name_; }
    std::string stamp() const override { return ""; }

  private:
    std::span<const std::byte> bytes_;
    std::string name_ = "x.tar";
};

struct Found {
    std::vector<TarMember> members;
    bool good = false;
};

Found members(const Input& input, const TarWindow& window) {
    Found found;
    try {
        TarReader reader(
            input.name(), input.size(), [&](std::uint64_t at, std::span<std::byte> out) { input.read(at, out); },
            window);
        for (TarMember member; reader.next(member);) {
            require(reader.bytes(member.payload).size() == member.payload.size);
            found.members.push_back(member);
        }
        found.good = true;
    } catch (const DataError&) {
    } catch (const Unsupported&) {
    }
    return found;
}

bool is_safe(const std::string& name) {
    const std::string whole = "/" + name + "/";
    return whole.find("/../") == std::string::npos && whole.find("//") == std::string::npos &&
           whole.find("/./") == std::string::npos && name.find('\0') == std::string::npos;
}

// Repairs checksums; otherwise nearly every change to a header would fail there.
std::vector<std::byte> mended(std::span<const std::byte> bytes) {
    std::vector<std::byte> whole(bytes.begin(), bytes.end());
    for (std::size_t at = 0; at + kTarBlock <= whole.size(); at += kTarBlock) {
        const auto block = std::span(whole).subspan(at, kTarBlock);
        if (block[257] != std::byte{'u'} || block[258] != std::byte{'s'}) {
            continue;
        }
        std::ranges::fill(block.subspan(148, 8), std::byte{' '});
        unsigned sum = 0;
        for (const std::byte byte : block) {
            sum += std::to_integer<unsigned>(byte);
        }
        for (std::size_t i = 0; i < 6; ++i) {
            block[148 + i] = static_cast<std::byte>('0' + (sum >> (3 * (5 - i)) & 7));
        }
        block[154] = std::byte{0};
    }
    return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) {
        return 0;
    }
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto archive = (data[0] & 1) != 0 ? mended(bytes.subspan(1)) : std::vector(bytes.begin() + 1, bytes.end());
    const Input input(archive);
    const Found large = members(input, {});
    const Found small = members(input, {.sequential = 512, .header = 512, .skip_from = 0});
    require(large.good == small.good && large.members.size() == small.members.size());
    for (std::size_t i = 0; i < large.members.size(); ++i) {
        const TarMember& member = large.members[i];
        require(member.name == small.members[i].name && member.payload == small.members[i].payload);
        require(!member.name.empty() && is_safe(member.name));
        require(member.payload.offset <= input.size() && member.payload.size <= input.size() - member.payload.offset);
    }
    const FieldNames fields{.image = "", .label = "", .more = {{.name = "png"}, {.name = "json:k"}, {.name = "txt"}}};
    const FieldNames numbers{
        .image = "", .label = "", .more = {{.name = "n", .from = "npy", .kind = FieldKind::value}}};
    const FieldNames clips{.image = "", .label = "", .clips = true};
    for (const FieldNames& names : {FieldNames{}, fields, numbers, clips}) {
        try {
            const TarIndex index = make_tar_index(input, names);  // throws InternalError if it could not be parsed
            require(index.fields() == names.more.size());
            for (std::int64_t i = 0; i < index.size(); ++i) {
                require(!index.key(i).empty());
                if (index[i].image == static_cast<std::uint32_t>(TarImage::frames)) {
                    require(names.clips && !index.frames(index[i]).empty());
                }
                for (std::size_t at = 0; at < index.fields(); ++at) {
                    const TarFieldPlace& place = index.field(i, at);
                    require(place.offset <= input.size() && place.size <= input.size() - place.offset);
                }
            }
        } catch (const DataError&) {
        } catch (const Unsupported&) {
        }
    }
    return 0;
}
