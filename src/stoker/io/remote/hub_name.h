// Names of files and folders of data sets on the Hugging Face hub, hf://datasets/ORG/NAME[@REVISION]/PATH, as
// huggingface_hub's file system reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker {

// A repository and a path in it.
struct HubPlace {
    std::string repository;  // "ORG/NAME", or "NAME" for old data sets without an organisation
    std::string path;        // empty: the top folder

    bool operator==(const HubPlace&) const = default;
};

struct HubName {
    // Without a revision, "A/B/c" is c in A/B or, if that data set does not exist, B/c in A.
    std::vector<HubPlace> places;
    std::string revision = "main";  // decoded: "refs/convert/parquet"
    std::string written = {};       // the revision as the name has it; empty: none
};

// The revision ends at the first '/', except for refs/convert/NAME and refs/pr/NUMBER; %XX in it stands for a byte, and
// ~parquet is short for refs/convert/parquet. The path is not decoded: '%', '?' and '#' are parts of it. Throws
// InvalidArgument for parts that are missing or not valid, Unsupported for models and spaces.
HubName parse_hub_name(std::string_view name);

// The URL that leads to the file's bytes.
std::string hub_file_url(const std::string& endpoint, const HubPlace& place, const std::string& revision);

// The URL of the first page of a folder's listing.
std::string hub_tree_url(const std::string& endpoint, const HubPlace& place, const std::string& revision,
                         bool recursive);

// The name of a file that a listing of `place` has. It has one meaning, also without an organisation.
std::string hub_file_name(const HubName& name, const HubPlace& place, std::string_view path);

}  // namespace stoker
