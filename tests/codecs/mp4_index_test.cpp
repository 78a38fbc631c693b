// Tables of more samples than bytes, in files that libavformat never sees.
#include "stoker/codecs/video/mp4_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {
namespace {

std::string number(std::uint64_t value, int bytes) {
    std::string text;
    for (int i = bytes; i-- > 0;) {
        text += static_cast<char>(value >> (8 * i) & 255);
    }
    return text;
}

std::string box(const std::string& name, const std::string& content, bool wide = false) {
    return wide ? number(1, 4) + name + number(16 + content.size(), 8) + content
                : number(8 + content.size(), 4) + name + content;
}

std::string nested(const std::vector<std::string>& names, std::string content, bool wide = false) {
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
        content = box(*name, content, wide);
    }
    return box("ftyp", "isom0000") + content;
}

TEST(Mp4Index, HasAtMostASampleForEachByte) {
    const std::vector<std::string> table = {"moov", "trak", "mdia", "minf", "stbl"};
    for (const bool wide : {false, true}) {
        for (const std::uint64_t count : {3U, 60'000'000U}) {
            const std::string sizes = number(0, 4) + number(1, 4) + number(count, 4);
            const std::string run = number(0, 4) + number(count, 4);
            for (const std::string& file :
                 {nested(table, box("stsd", "xxxx") + box("stsz", sizes), wide),
                  nested(table, box("stz2", sizes), wide), nested({"moof", "traf"}, box("trun", run), wide)}) {
                if (count > 3) {
                    EXPECT_THROW(require_possible_index(file), DataError);
                } else {
                    EXPECT_NO_THROW(require_possible_index(file));
                }
                for (std::size_t cut = 0; cut < file.size(); ++cut) {
                    try {
                        require_possible_index(std::string_view(file).substr(0, cut));
                    } catch (const DataError&) {
                    }
                }
            }
        }
    }
    // Its bytes in a picture do not count, nor those of other files.
    EXPECT_NO_THROW(require_possible_index(nested({"mdat"}, box("stsz", std::string(12, '\xff')))));
    EXPECT_NO_THROW(require_possible_index("RIFF" + nested(table, box("stsz", std::string(12, '\xff')))));
    EXPECT_NO_THROW(require_possible_index(""));
}

TEST(Mp4Index, DeepNestingEnds) {
    EXPECT_NO_THROW(require_possible_index(nested(std::vector<std::string>(2000, "moov"), "")));
}

}  // namespace
}  // namespace stoker
