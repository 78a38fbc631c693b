// Archives in each dialect, with what samples are made of.
#include <cstring>

#include "formats/tar_support.h"
#include "seeds.h"

namespace stoker::fuzz {

std::vector<std::vector<std::byte>> tars() {
    using namespace stoker::testing;
    const std::string sample = tar_member("a/1.jpg", "JPEG") + tar_member("a/1.cls", "3");
    const std::string archives[] = {
        sample + tar_end(),
        tar_member("1.png", "PNG", {.magic = kGnu, .base256 = true}) + tar_member("1.json", R"({"label": 2})") +
            tar_end(),
        pax(pax_record("path", "b/2.npy") + pax_record("size", "3")) + tar_header("x", 0) + padded("NPY") + tar_end(),
        pax(pax_record("comment", "c"), 'g') + long_name(std::string(130, 'n') + ".jpg") + tar_member("n", "1") +
            long_name("target", 'K') + tar_member("l", "", {.type = '2'}) + tar_end(),
        tar_member("3.txt", "7", {.magic = kV7}) + tar_member("d/", "", {.type = '5'}) +
            tar_member("3.jpg", std::string(600, 'x'), {.prefix = "p"}) + std::string(512, '\0')};
    std::vector<std::vector<std::byte>> inputs;
    for (const std::string& archive : archives) {
        for (const char mend : {'\0', '\1'}) {
            const std::string input = mend + archive;
            inputs.emplace_back(as_bytes(input).begin(), as_bytes(input).end());
        }
    }
    return inputs;
}

}  // namespace stoker::fuzz
