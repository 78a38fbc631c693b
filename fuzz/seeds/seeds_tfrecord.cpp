// TFRecords in the layout of fuzz_tfrecord.cpp: shards, plain and compressed, single records, and an index.
#include "formats/tfrecord/tfrecord_support.h"
#include "fuzz/formats/sources.h"
#include "fuzz/seeds/seeds.h"
#include "stoker/formats/tfrecord/tf_index.h"
#include "stoker/io/gzip.h"

namespace stoker::fuzz {

std::vector<Input> tfrecords() {
    using namespace stoker::testing;
    const TfFeatures features = {{"image", tf_texts({tf_image("a")})},
                                 {"label", tf_integers({3})},
                                 {"ids", tf_integers({-1, 300}, false)},
                                 {"score", tf_floats({0.5F, 2})},
                                 {"point", tf_floats({1.5F}, false)},
                                 {"text", tf_texts({"one", "two"})},
                                 {"label", tf_integers({1}) + tf_floats({2}) + tf_integers({2})}};
    const std::string record = tf_example(features);
    const std::string shard = tf_record(record) + tf_record(tf_sample("b", 1)) + tf_record(tf_sample("c", -1));
    const std::span<const std::byte> pieces[] = {as_bytes(shard)};
    const Buffer packed = gzip(pieces);
    const Scratch scratch;
    const TfIndex index = make_tf_index(*open_byte_file(scratch.write("x", as_bytes(shard)).string()),
                                        {.names = {"label"}, .strict = true});
    std::vector<Input> inputs;
    for (const std::string& input :
         {'\x81' + shard, '\x00' + shard, '\x00' + std::string(as_text(packed.bytes())), '\x01' + record,
          '\x01' + tf_field(1, "") + tf_field(2, tf_field(1, "steps")), '\x02' + std::string(as_text(index.bytes()))}) {
        inputs.emplace_back(as_bytes(input).begin(), as_bytes(input).end());
    }
    return inputs;
}

}  // namespace stoker::fuzz
