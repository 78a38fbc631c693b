cd /try
cat >train.py <<'RUN'
import time

import torch


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(64), index % 3


model = torch.nn.Linear(64, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for x, y in torch.utils.data.DataLoader(Slow(), batch_size=16):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
RUN
python -m stoker watch train.py
