// The card of a repository on the Hub: `configs` in the YAML at the head of README.md, which names the files of splits.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker {

struct HubDataFiles {
    std::string split;                  // "train"
    std::vector<std::string> patterns;  // "data/train-*.parquet": see io/remote/remote_pattern.h
};

struct HubConfig {
    std::string name;
    bool is_default = false;
    std::vector<HubDataFiles> files;
};

// Empty for a text without such a head, or with one that is written in another way than the Hub's libraries do.
std::vector<HubConfig> read_hub_card(std::string_view readme);

}  // namespace stoker
