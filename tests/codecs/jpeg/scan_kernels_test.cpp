// All sets of scan kernels give the same coefficients, for one piece and for many.
#include "stoker/codecs/jpeg/scan_kernels.h"

#include <gtest/gtest.h>

#include <cstring>

#include "codecs/fixtures.h"
#include "codecs/jpeg/jpeg_files.h"
#include "stoker/codecs/jpeg/huffman_reader.h"
#include "stoker/codecs/jpeg/jpeg_blocks.h"

namespace stoker::testing {
namespace {

// All coefficients, by component, as the reader gives them.
std::vector<std::int16_t> coefficients(const Bytes& jpeg, const ScanKernels& kernels) {
    JpegReader reader;
    const JpegReader::Session session(reader, jpeg);
    JpegFrame frame;
    EXPECT_TRUE(read_frame(reader.codec(), frame));
    HuffmanReader huffman(kernels);
    EXPECT_TRUE(huffman.open(reader.codec(), frame, reader.rest()));
    std::vector<std::int16_t> all;
    for (int row = 0; row < frame.mcus_high; ++row) {
        for (int c = 0; c < frame.components; ++c) {
            const FrameComponent& component = frame.component[JpegFrame::at(c)];
            for (int v = 0; v < component.v; ++v) {
                const std::int16_t* blocks = huffman.blocks(c, row * component.v + v, 0, component.blocks_wide);
                all.insert(all.end(), blocks, blocks + component.blocks_wide * kBlockSize);
            }
        }
    }
    huffman.finish();
    return all;
}

TEST(ScanKernels, AllSetsGiveTheCoefficientsOfLibjpeg) {
    for (const unsigned restart : {0U, 1U, 3U, 20U}) {
        for (int quality = 5; quality <= 100; quality += 19) {
            JpegPlan plan;
            plan.height = 99;
            plan.width = 143;
            plan.quality = quality;
            plan.restart_interval = restart;
            plan.colors = Colors::grey;  // its blocks are in the same order in a file and in memory
            const Bytes jpeg = make_jpeg(plan);
            JpegReader reader;
            const JpegReader::Session session(reader, jpeg);
            JpegFrame frame;
            ASSERT_TRUE(read_frame(reader.codec(), frame));
            const JpegBlocks expected = read_blocks(reader, frame);
            for (const ScanKernels& kernels : scan_kernels()) {
                const std::vector<std::int16_t> got = coefficients(jpeg, kernels);
                ASSERT_TRUE(std::ranges::equal(got, expected.blocks[0])) << kernels.name << " " << quality;
            }
        }
    }
}

TEST(ScanKernels, AllSetsAgreeOnColours) {
    for (const unsigned restart : {0U, 1U, 4U}) {
        JpegPlan plan;
        plan.height = 120;
        plan.width = 200;
        plan.restart_interval = restart;
        plan.optimize = true;
        const Bytes jpeg = make_jpeg(plan);
        const std::vector<std::int16_t> expected = coefficients(jpeg, kPlainScanKernels);
        for (const ScanKernels& kernels : scan_kernels()) {
            ASSERT_EQ(coefficients(jpeg, kernels), expected) << kernels.name;
        }
    }
}

// A block may end with its last coefficient, without an end of block.
TEST(ScanKernels, TheLastCoefficientEndsABlock) {
    JpegPlan plan;
    plan.content = Content::noise;
    plan.quality = 100;
    const Bytes jpeg = make_jpeg(plan);
    const std::vector<std::int16_t> expected = coefficients(jpeg, kPlainScanKernels);
    int ends = 0;
    for (std::size_t at = kBlockSize - 1; at < expected.size(); at += kBlockSize) {
        ends += expected[at] != 0 ? 1 : 0;
    }
    EXPECT_GT(ends, 10);
    for (const ScanKernels& kernels : scan_kernels()) {
        ASSERT_EQ(coefficients(jpeg, kernels), expected) << kernels.name;
    }
}

}  // namespace
}  // namespace stoker::testing
