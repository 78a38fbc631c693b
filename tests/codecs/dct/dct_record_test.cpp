// dct records: every invalid field and truncation is refused before memory is allocated, and all instruction sets give
// the same result for a damaged record.
#include "stoker/codecs/dct/dct_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/dct/dct.h"
#include "stoker/codecs/dct/dct_blocks.h"
#include "stoker/codecs/jpeg/block_decoder.h"

namespace stoker {
namespace {

using namespace stoker::testing;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Offsets from codecs/dct/FORMAT.md, for a record of three components and two tables.
constexpr std::size_t kVersion = 4, kFlags = 5, kColor = 6, kOrientation = 7, kWidth = 8, kHeight = 10,
                      kComponents = 12, kGroupRows = 13, kTables = 14, kFactors = 16, kQuant = 28,
                      kSizes = kQuant + 2 * 128;

constexpr DctKind kZstd = DctKind::zstd;
constexpr DctKind kAns = DctKind::ans;

Bytes record_of(const JpegPlan& plan, DctKind kind = DctKind::segments) {
    return encode_dct(make_jpeg(plan), kind).bytes;
}

std::uint32_t number_at(const Bytes& bytes, std::size_t at, int size) {
    std::uint32_t value = 0;
    for (int i = size - 1; i >= 0; --i) {
        value = value << 8 | std::to_integer<std::uint32_t>(bytes[at + static_cast<std::size_t>(i)]);
    }
    return value;
}

void set_number(Bytes& bytes, std::size_t at, std::uint32_t value, int size) {
    for (int i = 0; i < size; ++i) {
        bytes[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> 8 * i);
    }
}

std::string decode_error(const Bytes& record) {
    DctDecoder decoder;
    RowByRow sink;
    return error_of([&] { decoder.decode(record, sink); });
}

std::string info_error(const Bytes& record) {
    DctDecoder decoder;
    return error_of([&] { decoder.info(record); });
}

TEST(DctRecord, HasTheBytesOfTheFormat) {
    const JpegPlan plan = {.width = 75, .height = 300, .quality = 60, .progressive = true, .orientation = 6};
    const Bytes record = record_of(plan);
    EXPECT_EQ(
        Bytes(record.begin(), record.begin() + kQuant),
        bytes_of({0xDC, 'D', 'C', 'T', 1, 4, 1, 6, 75, 0, 44, 1, 3, 1, 2, 0, 2, 2, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0}));
    const std::size_t segments = 19 * 4;  // MCU rows of 16 pixels: two of luma, one each of chroma
    std::size_t body = 0;
    for (std::size_t i = 0; i < segments; ++i) {
        body += number_at(record, kSizes + 12 + 2 * i, 2);
    }
    EXPECT_EQ(number_at(record, kSizes, 4), body);
    const std::size_t head = number_at(record, kSizes + 4, 4);
    EXPECT_EQ(number_at(record, kSizes + 8, 4), 0u);  // no tail: not restored byte for byte
    const Bytes jpeg = make_jpeg(plan);
    const std::size_t at = kSizes + 12 + 2 * segments + body;
    ASSERT_EQ(record.size(), at + head);
    EXPECT_TRUE(std::equal(record.begin() + static_cast<std::ptrdiff_t>(at), record.end(), jpeg.begin()));
    DctHeader header;
    read_dct_header(record, header);
    EXPECT_EQ(header.ends.size(), segments);
    EXPECT_EQ(header.chunk(0).size(), number_at(record, kSizes + 12, 2));
}

TEST(DctRecord, FlagsDescribeTheRecord) {
    const auto flags = [](const JpegPlan& plan, DctKind kind = DctKind::segments) {
        return std::to_integer<int>(record_of(plan, kind)[kFlags]);
    };
    EXPECT_EQ(flags({}), DctFlags::kExactFile);
    EXPECT_EQ(flags({}, kZstd), DctFlags::kExactFile | DctFlags::kZstd);
    EXPECT_EQ(flags({}, kAns), DctFlags::kExactFile | DctFlags::kAns | DctFlags::kSmall);
    EXPECT_EQ(flags({.quality = 1, .wide_quant = true}, kAns), DctFlags::kExactFile | DctFlags::kAns);
    EXPECT_EQ(flags({.progressive = true}), DctFlags::kProgressive);
    EXPECT_EQ(flags({.separate_scans = true}, kZstd), DctFlags::kZstd);
    const JpegPlan wide = {.width = 8000, .height = 9, .quality = 100, .content = Content::noise};
    EXPECT_EQ(flags(wide), DctFlags::kExactFile | DctFlags::kWide);
}

TEST(DctRecord, EveryFieldIsChecked) {
    struct Field {
        std::size_t at;
        int size;
        std::vector<std::uint32_t> refused;
        std::vector<std::uint32_t> taken;  // values of the header
    };
    const Field fields[] = {
        {0, 1, {0, 0xDD}, {}},
        {3, 1, {'U'}, {}},
        {kVersion, 1, {0, 2, 255}, {1}},
        {kFlags, 1, {16, 32, 64, 128, 255, 0, 4}, {2, 6}},
        {kColor, 1, {0, 3, 255}, {1, 2}},
        {kOrientation, 1, {0, 9, 255}, {1, 8}},
        {kWidth, 2, {0}, {}},
        {kHeight, 2, {0}, {}},
        {kComponents, 1, {0, 1, 2, 4, 255}, {3}},
        {kGroupRows, 1, {0, 2, kMaxGroupRows, kMaxGroupRows + 1, 255}, {1}},
        {kTables + 1, 1, {1, 255}, {0}},
        {kFactors + 3, 1, {1, 255}, {0}},
        {kTables, 1, {0, 4, 255}, {}},
        {kFactors, 1, {0, 5, 255}, {3, 4}},
        {kFactors + 1, 1, {0, 5, 255}, {}},
        {kFactors + 2, 1, {2, 255}, {0, 1}},
        {kFactors + 4, 1, {0, 3, 5, 255}, {}},
        {kSizes, 4, {0, 1, 0x7FFFFFFF, 0xFFFFFFFF}, {}},
        {kSizes + 4, 4, {0x7FFFFFFF, 0xFFFFFFFF}, {0}},
        {kSizes + 8, 4, {0x7FFFFFFF, 0xFFFFFFFF}, {0}},
        {kSizes + 12, 2, {0, 0xFFFF}, {}},
    };
    const Bytes record = record_of({});
    ASSERT_EQ(info_error(record), "no DataError");
    for (const Field& field : fields) {
        for (const std::uint32_t value : field.refused) {
            Bytes damaged = record;
            set_number(damaged, field.at, value, field.size);
            EXPECT_THAT(info_error(damaged), StartsWith("[dct")) << value << " at " << field.at;
            EXPECT_THAT(decode_error(damaged), StartsWith("[dct")) << value << " at " << field.at;
            EXPECT_THROW(restore_jpeg(damaged), DataError);
        }
        for (const std::uint32_t value : field.taken) {
            Bytes changed = record;
            set_number(changed, field.at, value, field.size);
            EXPECT_EQ(info_error(changed), "no DataError") << value << " at " << field.at;
        }
    }
    Bytes both = record_of({.height = 16}, kZstd);
    both[kFlags] |= std::byte{DctFlags::kAns};
    EXPECT_THAT(info_error(both), HasSubstr("consistent header"));
    Bytes newer = record;
    newer[kVersion] = std::byte{2};
    EXPECT_THAT(decode_error(newer), HasSubstr("version 2"));
}

// The largest header values, with and without enough bytes.
TEST(DctRecord, HugeHeadersAreRefusedBeforeAllocation) {
    for (const DctKind kind : kDctKinds) {
        for (const Bytes& record : {record_of({}, kind), record_of({.colors = Colors::grey}, kind)}) {
            Bytes huge = record;
            set_number(huge, kWidth, 65535, 2);
            set_number(huge, kHeight, 65535, 2);
            EXPECT_THAT(decode_error(huge), HasSubstr("65535 x 65535"));
            EXPECT_THAT(info_error(huge), HasSubstr("65535 x 65535"));
            EXPECT_THROW(restore_jpeg(huge), DataError);
            set_number(huge, kWidth, 16384, 2);  // allowed, but the bytes are missing
            set_number(huge, kHeight, 16384, 2);
            EXPECT_THAT(decode_error(huge), StartsWith("[dct"));
            EXPECT_THAT(info_error(huge), StartsWith("[dct"));
        }
    }
}

TEST(DctRecord, EveryTruncationIsRefused) {
    for (const DctKind kind : kDctKinds) {
        const Bytes record = record_of({.width = 33, .height = 20, .trailing = 90}, kind);
        for (std::size_t size = 0; size < record.size(); ++size) {
            const Bytes cut(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(size));
            ASSERT_THAT(decode_error(cut), StartsWith("[dct")) << size << " of " << record.size();
        }
    }
}

TEST(DctRecord, BytesAfterTheCoefficients) {
    // A short tail, which zeros must follow: readers may read 64 bytes after the last segment.
    Bytes record = record_of({.colors = Colors::grey});
    const std::size_t quant_end = 20 + 128;
    const std::size_t body = number_at(record, quant_end, 4);
    const std::size_t segments = 6;
    set_number(record, quant_end + 4, 0, 4);
    set_number(record, quant_end + 8, 0, 4);
    record.resize(quant_end + 12 + 2 * segments + body);
    record.resize(record.size() + kSegmentPadding);
    EXPECT_EQ(decode_error(record), "no DataError");
    record.pop_back();
    EXPECT_THAT(decode_error(record), HasSubstr("64 bytes"));
    DctHeader header;
    record.push_back(std::byte{0});
    read_dct_header(record, header);
    EXPECT_EQ(write_dct_record(header), record);
}

TEST(DctRecord, RegionsOutsideAreInvalidArguments) {
    const Bytes record = record_of({.width = 40, .height = 30});
    const Box outside[] = {{0, 0, 31, 40}, {0, 0, 30, 41},        {-1, 0, 5, 5},        {0, -1, 5, 5},  {30, 0, 1, 1},
                           {0, 40, 1, 1},  {0, 0, 0, 5},          {0, 0, 5, 0},         {0, 0, -1, -1}, {29, 39, 1, 2},
                           {1, 0, 30, 5},  {2147483647, 0, 1, 1}, {0, 2147483647, 2, 2}};
    DctDecoder decoder;
    for (const Box& box : outside) {
        Image image;
        BoxSink sink(box, image);
        EXPECT_THROW(decoder.decode(record, sink), InvalidArgument) << box.top << " " << box.left;
    }
    Image image;
    BoxSink last({29, 39, 1, 1}, image);
    decoder.decode(record, last);
    EXPECT_EQ(image.height(), 1);
}

// ---- damage ----

// Decodes a record with one instruction set: its rows, or the error.
struct Outcome {
    std::string error;
    Image image;
};

Outcome decode_on(const SegmentKernels& segments, const AnsKernels& ans, const BlockKernels& kernels,
                  const Bytes& record, const Box* box) {
    Outcome outcome;
    try {
        DctBlocks blocks(segments, ans);
        blocks.open(record);
        const JpegFrame& frame = blocks.header().frame;
        ImageSink sink(outcome.image);
        const Box part = box != nullptr ? *box : Box{0, 0, frame.height, frame.width};
        BlockDecoder(kernels).decode(frame, blocks, {part}, sink);
    } catch (const DataError& error) {
        outcome.error = error.what();
    }
    return outcome;
}

Bytes damaged(const Bytes& record, Rng& rng) {
    if (rng.chance(0.5f)) {
        return mutated(record, rng);
    }
    Bytes changed = record;  // keeps all sizes
    for (std::uint32_t i = 1 + rng.below(8); i > 0; --i) {
        const std::size_t at = kQuant + rng.below(static_cast<std::uint32_t>(record.size() - kQuant));
        changed[at] = static_cast<std::byte>(rng.next());
    }
    return changed;
}

TEST(DctRecord, DamageIsTheSameOnEverySet) {
    Rng rng({.seed = 12});
    std::vector<Bytes> records;
    for (const DctKind kind : kDctKinds) {
        records.push_back(record_of({.width = 70, .height = 50}, kind));
        records.push_back(record_of({.width = 50, .height = 70, .h = {1, 1, 1}, .v = {2, 1, 1}, .quality = 98}, kind));
        records.push_back(record_of({.width = 90, .height = 20, .colors = Colors::grey}, kind));
        records.push_back(record_of({.width = 600, .height = 9, .quality = 99, .content = Content::noise}, kind));
    }
    DctDecoder decoder;
    int read = 0;
    int refused = 0;
    for (int i = 0; i < 12000 / kSlow; ++i) {
        const Bytes record = damaged(records[rng.below(static_cast<std::uint32_t>(records.size()))], rng);
        ImageInfo info;
        try {
            info = decoder.info(record);
        } catch (const DataError&) {
            ++refused;
            EXPECT_THROW(restore_jpeg(record), DataError);
            continue;
        }
        if (info.height > 4096 || info.width > 4096) {
            continue;
        }
        const Box part = random_box(rng, info.height, info.width);
        const Box* box = rng.chance(0.5f) ? &part : nullptr;
        const Outcome expected = decode_on(kPlainSegmentKernels, kPlainAnsKernels, kPlainBlockKernels, record, box);
        ++(expected.error.empty() ? read : refused);
        for (std::size_t s = 1; s < segment_kernels().size(); ++s) {
            const AnsKernels& ans = ans_kernels()[std::min(s, ans_kernels().size() - 1)];
            const Outcome got = decode_on(segment_kernels()[s], ans, block_kernels()[s], record, box);
            ASSERT_EQ(got.error, expected.error) << segment_kernels()[s].name;
            ASSERT_TRUE(!expected.error.empty() || same_pixels(got.image.view(), expected.image.view()))
                << segment_kernels()[s].name;
        }
        try {
            restore_jpeg(record);
        } catch (const DataError& error) {
            EXPECT_NE(std::string(error.what()), "");
        }
    }
    EXPECT_GT(read, 1000 / kSlow);
    EXPECT_GT(refused, 1000 / kSlow);
}

// Parts of a group that are larger than its blocks allow, empty, or invalid.
TEST(DctRecord, DamagedGroupsAreRefused) {
    const Bytes record = record_of({.width = 64, .height = 64, .quality = 98, .content = Content::noise}, kZstd);
    DctHeader header;
    read_dct_header(record, header);
    ASSERT_EQ(header.ends.size(), 1u);
    const auto group = static_cast<std::size_t>(header.chunk(0).data() - record.data());
    for (std::size_t part = 0; part < 4; ++part) {
        for (const std::uint32_t size : {0u, 1u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
            Bytes damaged_sizes = record;
            set_number(damaged_sizes, group + 4 * part, size, 4);
            EXPECT_THAT(decode_error(damaged_sizes), HasSubstr("valid group")) << size << " for part " << part;
        }
    }
    // A zstd frame that would decompress to 128 MB is refused because of its size field.
    Bytes bomb = record;
    const Bytes frame = bytes_of({0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0x00, 0x00, 0x00, 0x08});
    ASSERT_GT(number_at(record, group, 4), frame.size());
    std::copy(frame.begin(), frame.end(), bomb.begin() + static_cast<std::ptrdiff_t>(group + 16));
    EXPECT_THAT(decode_error(bomb), HasSubstr("impossible size"));
}

}  // namespace
}  // namespace stoker
