// A small trace of torch.profiler: whole, as gzip, cut short, and with strange events.
#include <string>

#include "fuzz/seeds/seeds.h"
#include "stoker/base/file.h"
#include "stoker/io/gzip.h"

namespace stoker::fuzz {

std::vector<Input> traces() {
    const std::string trace =
        R"-({"schemaVersion": 1, "deviceProperties": [{"name": "G", "totalGlobalMem": 9, "computeMajor": 8}],)-"
        R"-("distributedInfo": {"backend": "gloo", "rank": 1, "world_size": 2}, "traceEvents": [)-"
        R"-({"ph":"X","cat":"user_annotation","name":"ProfilerStep#7","pid":1,"tid":1,"ts":10.5,"dur":90},)-"
        R"-({"ph":"X","cat":"cpu_op","name":"aten::to","pid":1,"tid":1,"ts":20,"dur":9,"args":{"Input Dims":[[4,[2]]]}},)-"
        R"-({"ph":"X","cat":"cuda_runtime","name":"cudaMemcpy","pid":1,"tid":1,"ts":21,"dur":2,"args":{"correlation":3}},)-"
        R"-({"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":22,"dur":1,)-"
        R"-("args":{"stream":7,"correlation":3,"device":0,"bytes":64}},)-"
        R"-({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":30,"dur":1,"args":{"stream":7,"correlation":4}},)-"
        R"-({"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function","pid":1,"tid":2,"ts":50,"dur":9},)-"
        R"-({"ph":"X","cat":"python_function","name":"a.py(3): f","pid":1,"tid":1,"ts":12,"dur":40},)-"
        R"-({"ph":"i","cat":"m","name":"[memory]","ts":1e1,"args":{"Total Allocated":5,"Device Type":1}}], "end": "\"]"})-";
    const std::span<const std::byte> bytes = as_bytes(trace);
    const Buffer packed = gzip(std::span(&bytes, 1));
    const std::span<const std::byte> gz = packed.bytes();
    const auto as_seed = [](std::span<const std::byte> from) { return Input(from.begin(), from.end()); };
    return {
        as_seed(bytes), as_seed(gz), as_seed(bytes.first(bytes.size() / 2)), as_seed(gz.first(gz.size() / 2)),
        as_seed(as_bytes(R"-({"traceEvents": [{"ph": "X", "ts": -1, "dur": 1e18, "cat": "kernel"}, {]}, 5, null]})-"))};
}

}  // namespace stoker::fuzz
