// Texts of /proc and /sys as kernels write them.
#include <string_view>

#include "fuzz/seeds/seeds.h"
#include "stoker/base/file.h"

namespace stoker::fuzz {

std::vector<std::vector<std::byte>> counter_texts() {
    std::vector<std::vector<std::byte>> inputs;
    for (const std::string_view text :
         {"cpu  60 6 30 200 10 1 2 4 0 0\ncpu0 50 5 20 100 7 1 2 3 9 9\ncpu3 10 1 10 100 3 0 0 1 0 0\nintr 12 34\n",
          "259 0 nvme0n1 100 5 2000 300 40 6 800 70 1 900 370\n259 1 nvme0n1p1 1 0 8 1 1 0 8 1 0 1 2\n",
          "Inter-| Receive | Transmit\n lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0\n  eth0:5 9 1 2 0 0 0 0 7 5 3 4 0 0 0 "
          "0\n",
          "MemTotal: 8388608 kB\nMemAvailable: 2097152 kB\nSwapTotal: 4096 kB\npswpin 10\npswpout 20\n",
          "some avg10=12.50 avg60=9.00 avg300=1.00 total=7500\nfull avg10=2.00 avg60=1.00 avg300=0.10 total=300\n",
          "nr_periods 100\nnr_throttled 25\nthrottled_usec 700000\nthrottled_time 700000000\n",
          "4.03 3.09 2.46 5/96 12083\n", "42 (a) S (b) R 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 7 0 999 123456 25 0 0\n",
          "27 1 259:2 / /a\\040b rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n", "always [madvise] never\n",
          "{\"cuda\" : {\"name\" : \"CUDA SDK\", \"version\" : \"13.0.1\"}}"}) {
        inputs.emplace_back(as_bytes(text).begin(), as_bytes(text).end());
    }
    return inputs;
}

}  // namespace stoker::fuzz
