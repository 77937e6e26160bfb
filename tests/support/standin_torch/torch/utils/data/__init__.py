from .dataloader import DataLoader as DataLoader
