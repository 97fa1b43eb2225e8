/** Costs of what an engine loads before a prefill. */
export interface LoadingCosts {
  /** Microseconds to bring one cached token to the GPU, by where it lies. */
  readonly hostTokenUs: number
  readonly diskTokenUs: number
  readonly remoteTokenUs: number
  /** Seconds for an adapter that is not loaded, and for one that has no room. */
  readonly adapterLoadS: number
  readonly adapterFullS: number
}

/**
 * 128 KiB of KV a token (an 8B model) over about 20 GB/s of PCIe, 3 GB/s of NVMe, 1.3 GB/s of network. Orders of
 * magnitude, to be set where they matter.
 */
export const DEFAULT_LOADING_COSTS: LoadingCosts = {
  hostTokenUs: 6,
  diskTokenUs: 40,
  remoteTokenUs: 100,
  adapterLoadS: 0.5,
  adapterFullS: 5,
}

/** Tokens that are only in slower tiers. */
interface SlowTokens {
  readonly host: number
  readonly disk: number
  readonly remote: number
}

/** Seconds to load cached blocks from slower tiers. */
export function loadSeconds({ host, disk, remote }: SlowTokens, costs: LoadingCosts): number {
  return (host * costs.hostTokenUs + disk * costs.diskTokenUs + remote * costs.remoteTokenUs) / 1e6
}

/** Seconds until the engine has the adapter. @param fit 1 loaded, 0 must be loaded, -1 no room */
export function adapterSeconds(fit: number, { adapterLoadS, adapterFullS }: LoadingCosts): number {
  return fit > 0 ? 0 : fit === 0 ? adapterLoadS : adapterFullS
}

/** Costs with those that a policy's options set. */
export function loadingCosts(options: Readonly<Record<string, unknown>>): LoadingCosts {
  const value = (name: keyof LoadingCosts): number => {
    const set = options[name]
    return typeof set === 'number' ? set : DEFAULT_LOADING_COSTS[name]
  }
  return {
    hostTokenUs: value('hostTokenUs'),
    diskTokenUs: value('diskTokenUs'),
    remoteTokenUs: value('remoteTokenUs'),
    adapterLoadS: value('adapterLoadS'),
    adapterFullS: value('adapterFullS'),
  }
}
