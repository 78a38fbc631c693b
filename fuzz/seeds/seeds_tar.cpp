// Tar archives in each dialect, indices of some of them, and texts about remote files.
#include <cstring>

#include "formats/arrays/npy_support.h"
#include "formats/webdataset/tar_support.h"
#include "fuzz/formats/sources.h"
#include "fuzz/seeds/seeds.h"
#include "stoker/formats/webdataset/tar_index.h"

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

// Values of members, after the bytes that choose kind and source (fuzz_tar_field.cpp).
std::vector<std::vector<std::byte>> tar_fields() {
    using namespace stoker::testing;
    const std::string json = R"({"k": [[1, 2, 3, 4.5], [0, 0, 1, 1]], "n": 7, "t": "text", "l": [1, 0]})";
    const std::string values[] = {"\x89PNG\r\n\x1a\n",
                                  " 12\n",
                                  "-2.5e3",
                                  json,
                                  R"({"k": 3})",
                                  R"({"k": )" + std::string(300, '[') + std::string(300, ']') + "}",
                                  "text",
                                  npy("<f4", "(2, 4)", std::string(32, 'x')),
                                  npy("|u1", "(3, 4)", std::string(12, 'x')),
                                  npy("<i8", "()", std::string(8, 'x'))};
    std::vector<std::vector<std::byte>> inputs;
    for (const std::string& value : values) {
        for (char kind = 0; kind < 8; ++kind) {
            const std::string input = std::string({kind, value == json || value[0] == '{' ? '\1' : '\0'}) + value;
            inputs.emplace_back(as_bytes(input).begin(), as_bytes(input).end());
        }
    }
    return inputs;
}

// The index of one shard, with labels and fields and without.
std::vector<std::vector<std::byte>> tar_indices() {
    using namespace stoker::testing;
    const Scratch scratch;
    std::vector<std::vector<std::byte>> inputs;
    for (const std::string& archive :
         {tar_member("a/1.jpg", "JPEG") + tar_member("a/1.cls", "3") + tar_member("a/2.npy", "NPY") + tar_end(),
          tar_member("1.png", "PNG") + tar_member("2.txt", "no image") + tar_end()}) {
        const auto path = scratch.write("shard.tar", as_bytes(archive));
        for (const FieldNames& names :
             {FieldNames{}, FieldNames{.image = "", .label = "", .more = {{.name = "txt"}}}}) {
            const TarIndex index = make_tar_index(*open_byte_file(path.string()), names);
            inputs.emplace_back(index.bytes().begin(), index.bytes().end());
        }
    }
    return inputs;
}

std::vector<std::vector<std::byte>> remote_texts() {
    std::vector<std::vector<std::byte>> inputs;
    for (const std::string_view text :
         {"bytes 0-99/1234", "bytes 0-99/*", "bytes */1234", "https://user:word@host:8080/a b/c.tar?token=1#f",
          "s3://bucket/train-{000..127}.tar", "{a,b,c}-{1..3}.tar",
          "[default]\naws_access_key_id = A\n s3 =\n  endpoint_url = http://h\n# note\n[profile p]\nregion=eu\n"}) {
        inputs.emplace_back(as_bytes(text).begin(), as_bytes(text).end());
    }
    return inputs;
}

std::vector<std::vector<std::byte>> remote_listings() {
    std::vector<std::vector<std::byte>> inputs;
    for (const std::string_view text :
         {"<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3\"><EncodingType>url</EncodingType>"
          "<IsTruncated>true</IsTruncated><NextContinuationToken>t&#x3d;</NextContinuationToken><Contents><Key>a+b/c%2B"
          "&amp;.tar</Key><Size>12</Size><Owner><ID>i</ID></Owner></Contents><Prefix/><!-- c --></ListBucketResult>",
          "<ListBucketResult><Contents><Key>a&lt;</Key><Size>0</Size></Contents></ListBucketResult>",
          "[{\"type\":\"directory\",\"path\":\"d\",\"size\":0},{\"type\":\"file\",\"path\":\"d/a\",\"size\":7}]",
          "<https://h/1>; rel=\"prev\", <https://h/2?a=1,2>; rel=\"next\"", "hf://datasets/org/name/a/b?c#d.tar",
          "hf://datasets/org/name@refs/convert/parquet/x/y", "hf://datasets/name@~parquet/x", "org/name@a%2Fb/c",
          "data/**/x-*.tar", "https://user@h:443/x", "http://h:80"}) {
        inputs.emplace_back(as_bytes(text).begin(), as_bytes(text).end());
    }
    return inputs;
}

std::vector<std::vector<std::byte>> url_names() {
    std::vector<std::vector<std::byte>> inputs;
    for (const std::string_view text :
         {"https://user:word@host:8080/a b/c.tar?token=1&part=2#f", "https://[::1]:80/a@b?X-Amz-Date=1",
          "https://user:pa/ss@host/a", "s3://KEY:SEC/RET@bucket/a?b#c", "https://...@host/x.tar?...", "data/a?b#c@d",
          "pa@ss:word", "gs://KEY:SEC/RET@bucket/a?b#c", "hf://TOKEN@datasets/a/b@refs/pr/1/x?y#z"}) {
        inputs.emplace_back(as_bytes(text).begin(), as_bytes(text).end());
    }
    return inputs;
}

}  // namespace stoker::fuzz
