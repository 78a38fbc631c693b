#include "stoker/codecs/j2k_codestream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/codecs/byte_order.h"
#include "stoker/codecs/region.h"

namespace stoker {
namespace {

constexpr std::uint32_t kStart = 0xFF4F;
constexpr std::uint32_t kSizes = 0xFF51;     // SIZ
constexpr std::uint32_t kStyle = 0xFF52;     // COD
constexpr std::uint32_t kOwnStyle = 0xFF53;  // COC, of one channel
constexpr std::uint32_t kTilePart = 0xFF90;  // SOT
constexpr std::uint32_t kTileData = 0xFF93;  // SOD
constexpr std::uint32_t kEnd = 0xFFD9;       // EOC
constexpr std::size_t kMostChannels = 4;
constexpr std::size_t kMostLevels = 32;

// OpenJPEG searches the content of a segment that it does not know for markers, which we would not see.
constexpr std::array<std::uint32_t, 21> kSegments = {0xFF50, kSizes, kStyle, kOwnStyle, 0xFF55, 0xFF57, 0xFF58,
                                                     0xFF59, 0xFF5C, 0xFF5D, 0xFF5E,    0xFF5F, 0xFF60, 0xFF61,
                                                     0xFF63, 0xFF64, 0xFF74, 0xFF75,    0xFF77, 0xFF78, kTilePart};

[[noreturn]] void refuse(std::size_t at, std::string expected, std::string got) {
    throw DataError({.path = {}, .offset = static_cast<std::int64_t>(at)},
                    {.where = "jp2", .expected = std::move(expected), .got = std::move(got)});
}

std::uint64_t divided(std::uint64_t value, std::uint64_t by) {
    return (value + by - 1) / by;
}

// How many parts of 2^exponent contain [first, last).
std::uint64_t parts_of(std::uint64_t first, std::uint64_t last, std::size_t exponent) {
    const std::uint64_t up = (std::uint64_t{1} << exponent) - 1;
    return last > first ? ((last + up) >> exponent) - (first >> exponent) : 0;
}

// Along one axis, of all tiles.
struct Counts {
    std::uint64_t precincts = 0;
    std::uint64_t most_precincts = 0;  // of one tile
    std::uint64_t blocks = 0;          // code blocks, if the level is not divided into bands
    std::uint64_t low = 0;             // those of its bands
    std::uint64_t high = 0;
};

// Rows or columns.
struct Axis {
    std::uint64_t begin = 0;  // of the image on the reference grid
    std::uint64_t end = 0;
    std::uint64_t tile_begin = 0;
    std::uint64_t tile = 0;

    std::uint64_t size() const { return end - begin; }
    std::uint64_t tile_size() const { return std::min(size(), tile); }  // at most
    std::uint64_t tiles() const { return divided(end - tile_begin, tile); }

    // At 1/2^level of the size of a channel with one sample in `step`. `precinct` and `block` are exponents.
    Counts count(std::uint64_t step, std::size_t level, std::size_t precinct, std::size_t block) const {
        Counts sum;
        const std::size_t band = std::min(block, std::max<std::size_t>(precinct, 1) - 1);
        const std::uint64_t up = (std::uint64_t{1} << level) - 1;
        for (std::uint64_t i = 0; i < tiles(); ++i) {
            const std::uint64_t from = std::max(begin, tile_begin + i * tile);
            const std::uint64_t to = std::min(end, tile_begin + (i + 1) * tile);
            const std::uint64_t first = (divided(from, step) + up) >> level;
            const std::uint64_t last = (divided(to, step) + up) >> level;
            const std::uint64_t precincts = parts_of(first, last, precinct);
            sum.precincts += precincts;
            sum.most_precincts = std::max(sum.most_precincts, precincts);
            sum.blocks += parts_of(first, last, std::min(block, precinct));
            sum.low += parts_of((first + 1) / 2, (last + 1) / 2, band);
            sum.high += parts_of(first / 2, last / 2, band);
        }
        return sum;
    }
};

class Codestream {
  public:
    // `at`: the codestream's first byte in the file.
    Codestream(std::span<const std::byte> bytes, std::size_t at, std::size_t file_size)
        : bytes_(bytes), begin_(at), file_size_(file_size) {
        precinct_.fill({15, 15});
        require(2);
        if (number(2) != kStart) {
            refuse(begin_, "the start of a JPEG 2000 codestream", "other bytes");
        }
        while (!done_) {
            read_segment();
        }
    }

    J2kHeader header() const {
        J2kHeader header{.height = static_cast<int>(rows_.size()),
                         .width = static_cast<int>(columns_.size()),
                         .channels = static_cast<int>(steps_.size()),
                         .bits = bits_};
        const Totals totals = count();
        if (totals.precincts * layers_ > bytes_.size()) {  // each has a byte at least in each layer
            refuse(begin_, fmt::format("precincts that {} bytes can hold", bytes_.size()),
                   fmt::format("{} of {} layers", totals.precincts, layers_));
        }
        header.memory = memory(totals);
        return header;
    }

  private:
    // None of them overflows: an image has at most 2^28 pixels, and no more tiles.
    struct Totals {
        std::uint64_t precincts = 0;
        std::uint64_t most_precincts = 0;  // of a tile, channel and level
        std::uint64_t blocks = 0;
        std::uint64_t samples = 0;
        std::uint64_t tile_samples = 0;  // of the largest tile
    };

    Totals count() const {
        Totals totals;
        for (const auto& [step_x, step_y] : steps_) {
            for (std::size_t level = 0; level <= levels_; ++level) {
                const auto [precinct_x, precinct_y] = precinct_[level];
                const Counts x = columns_.count(step_x, level, precinct_x, block_[0]);
                const Counts y = rows_.count(step_y, level, precinct_y, block_[1]);
                totals.precincts += x.precincts * y.precincts;
                totals.most_precincts = std::max(totals.most_precincts, x.most_precincts * y.most_precincts);
                totals.blocks += level >= fewest_levels_ ? x.blocks * y.blocks : 0;
                totals.blocks += level < levels_ ? x.low * y.high + x.high * y.low + x.high * y.high : 0;
            }
            totals.samples += divided(columns_.size(), step_x) * divided(rows_.size(), step_y);
            totals.tile_samples += divided(columns_.tile_size(), step_x) * divided(rows_.tile_size(), step_y);
        }
        return totals;
    }

    // What OpenJPEG 2.5 allocates, rounded up.
    std::uint64_t memory(const Totals& totals) const {
        constexpr std::uint64_t kTile = 9000;  // its parameters and a list of 100 markers
        constexpr std::uint64_t kTileChannel = 1200;
        constexpr std::uint64_t kTilePartIndex = 24;
        constexpr std::uint64_t kPrecinct = 800;  // of three bands, with their trees
        constexpr std::uint64_t kBlock = 450;     // with ten segments, and its nodes of the trees
        constexpr std::uint64_t kWavelet = 64;    // 16 rows or columns at once
        const std::uint64_t packets = (layers_ + 1) * (levels_ + 1) * steps_.size() * totals.most_precincts;
        const std::uint64_t longest = levels_ > 0 ? std::max(columns_.tile_size(), rows_.tile_size()) : 0;
        return columns_.tiles() * rows_.tiles() * (kTile + kTileChannel * steps_.size()) + parts_ * kTilePartIndex +
               totals.precincts * kPrecinct + totals.blocks * kBlock + 2 * packets +
               4 * (totals.samples + totals.tile_samples) + longest * kWavelet + bytes_.size();
    }

    void require(std::size_t count) const {
        if (bytes_.size() - at_ < count) {
            throw_truncated("jp2", "JPEG 2000", file_size_);
        }
    }
    std::uint32_t number(std::size_t size) {
        const std::uint32_t value = load_be(bytes_, at_, size);
        at_ += size;
        return value;
    }

    void read_segment() {
        require(2);
        const std::size_t start = at_;
        const std::uint32_t marker = number(2);
        const bool after_part = next_part_ != 0 && start == next_part_;
        if (marker == kEnd && after_part) {
            check_tiles(start);
            done_ = true;
            return;
        }
        if (marker == kTileData && next_part_ >= at_) {
            at_ = next_part_;
            return;
        }
        const bool known = std::ranges::find(kSegments, marker) != kSegments.end();
        require(2);
        const std::size_t size = number(2);
        if (!known || (after_part && marker != kTilePart) || size < 2) {
            refuse(begin_ + start, "a marker of JPEG 2000", fmt::format("{:04x}", marker));
        }
        require(size - 2);
        read_content(start, marker, size);
    }

    void read_content(std::size_t start, std::uint32_t marker, std::size_t size) {
        const std::size_t end = at_ + size - 2;
        if (marker != kSizes && steps_.empty()) {
            refuse(begin_ + start, "the image's size", fmt::format("the marker {:04x}", marker));
        }
        if (marker == kSizes) {
            read_sizes(start, size);
        } else if (marker == kStyle) {
            read_style(start, end, 4);
        } else if (marker == kOwnStyle) {
            at_ += 1;  // the channel
            read_style(start, end, 0);
        } else if (marker == kTilePart) {
            read_tile_part(start, size);
        }
        at_ = end;
    }

    void read_sizes(std::size_t start, std::size_t size) {
        constexpr std::size_t kFixed = 38;
        if (size < kFixed || !steps_.empty()) {
            refuse(begin_ + start, "one size of the image", "another");
        }
        number(2);
        std::array<std::uint64_t, 8> sides{};
        for (std::uint64_t& side : sides) {
            side = number(4);
        }
        columns_ = {.begin = sides[2], .end = sides[0], .tile_begin = sides[6], .tile = sides[4]};
        rows_ = {.begin = sides[3], .end = sides[1], .tile_begin = sides[7], .tile = sides[5]};
        const std::size_t channels = number(2);
        for (const Axis* axis : {&columns_, &rows_}) {
            if (axis->begin >= axis->end || axis->tile == 0 || axis->tile_begin > axis->begin ||
                axis->tile_begin + axis->tile <= axis->begin) {
                refuse(begin_ + start, "an image and tiles of some pixels", "none");
            }
        }
        check_image_size("jp2", static_cast<std::int64_t>(rows_.size()), static_cast<std::int64_t>(columns_.size()));
        constexpr std::uint64_t kTilePartBytes = 14;
        constexpr std::uint64_t kMostTiles = 65535;  // of the format
        const std::uint64_t most = std::min<std::uint64_t>(kMostTiles, bytes_.size() / kTilePartBytes);
        if (columns_.tiles() > most || rows_.tiles() > most || columns_.tiles() * rows_.tiles() > most) {
            refuse(begin_ + start, fmt::format("tiles that {} bytes can hold", bytes_.size()),
                   fmt::format("{} x {}", columns_.tiles(), rows_.tiles()));
        }
        seen_.resize(columns_.tiles() * rows_.tiles());
        if (channels == 0 || channels > kMostChannels || size != kFixed + 3 * channels) {
            refuse(begin_ + start, "1 to 4 channels", fmt::to_string(channels));
        }
        for (std::size_t c = 0; c < channels; ++c) {
            bits_ = std::max(bits_, static_cast<int>((number(1) & 0x7F) + 1));
            const std::uint64_t step_x = number(1);
            const std::uint64_t step_y = number(1);
            if (step_x == 0 || step_y == 0) {
                refuse(begin_ + start, "channels of some samples", "none");
            }
            steps_.push_back({step_x, step_y});
        }
    }

    // `general`: bytes between the flags and the levels. Keeps the smallest precincts and blocks of all styles, and the
    // most layers and levels.
    void read_style(std::size_t start, std::size_t end, std::size_t general) {
        if (end < at_ + 6 + general) {
            refuse(begin_ + start, "a coding style", "a shorter one");
        }
        const bool own_precincts = (number(1) & 1) != 0;
        if (general > 0) {
            number(1);  // the order
            layers_ = std::max<std::uint64_t>(layers_, number(2));
            number(1);  // whether channels are mixed
        }
        const std::size_t levels = number(1);
        for (std::size_t& exponent : block_) {
            exponent = std::min<std::size_t>(exponent, (number(1) & 15) + 2);
        }
        at_ += 2;
        if (levels > kMostLevels || (own_precincts && end < at_ + levels + 1)) {
            refuse(begin_ + start, "a coding style of up to 32 levels", fmt::to_string(levels));
        }
        levels_ = std::max(levels_, levels);
        fewest_levels_ = std::min(fewest_levels_, levels);
        for (std::size_t i = 0; own_precincts && i <= levels; ++i) {
            const std::size_t exponents = number(1);
            auto& [x, y] = precinct_[levels - i];
            x = std::min(x, exponents & 15);
            y = std::min(y, exponents >> 4);
        }
    }

    void read_tile_part(std::size_t start, std::size_t size) {
        constexpr std::size_t kSize = 10;
        if (size != kSize || (next_part_ != 0 && start != next_part_)) {
            refuse(begin_ + start, "a part of a tile", "another marker");
        }
        const std::size_t tile = number(2);
        const std::size_t length = number(4);  // from its marker on; 0: up to the end
        if (length == 0) {
            next_part_ = bytes_.size() - 2;
        } else {
            next_part_ = start + length;
        }
        if (next_part_ > bytes_.size()) {
            throw_truncated("jp2", "JPEG 2000", file_size_);
        }
        if (next_part_ < at_ + 2) {
            refuse(begin_ + start, "a part of a tile with pixels", "a shorter one");
        }
        if (tile >= seen_.size()) {
            refuse(begin_ + start, fmt::format("one of {} tiles", seen_.size()), fmt::format("tile {}", tile));
        }
        seen_[tile] = true;
        number(1);  // the part's number
        constexpr std::uint64_t kFewestParts = 10;
        parts_ += std::max<std::uint64_t>(kFewestParts, number(1));
    }

    // OpenJPEG leaves a missing one black.
    void check_tiles(std::size_t start) const {
        const auto missing = std::ranges::find(seen_, false);
        if (missing != seen_.end()) {
            refuse(begin_ + start, fmt::format("{} tiles", seen_.size()),
                   fmt::format("none at {}", missing - seen_.begin()));
        }
    }

    std::span<const std::byte> bytes_;
    std::size_t begin_;
    std::size_t file_size_;
    std::size_t at_ = 0;
    std::size_t next_part_ = 0;
    bool done_ = false;
    std::vector<bool> seen_;   // tiles
    std::uint64_t parts_ = 0;  // of all tiles, as their headers promise
    Axis columns_;
    Axis rows_;
    int bits_ = 0;
    std::vector<std::array<std::uint64_t, 2>> steps_;  // x, y: one for each channel
    std::uint64_t layers_ = 1;
    std::size_t levels_ = 0;
    std::size_t fewest_levels_ = kMostLevels;
    std::array<std::size_t, 2> block_{10, 10};                            // x, y: the smallest exponents
    std::array<std::array<std::size_t, 2>, kMostLevels + 1> precinct_{};  // x, y; 0: the full size
};

}  // namespace

J2kHeader read_j2k_codestream(std::span<const std::byte> bytes, std::size_t at, std::size_t file_size) {
    return Codestream(bytes, at, file_size).header();
}

}  // namespace stoker
