/**
 * Microseconds to bring one cached token to the GPU, by where it lies: 128 KiB of KV a token (an 8B model) over about
 * 20 GB/s of PCIe, 3 GB/s of NVMe, 1.3 GB/s of network. Orders of magnitude, to be set where they matter.
 */
export const TIER_TOKEN_US = { host: 6, disk: 40, remote: 100 } as const
