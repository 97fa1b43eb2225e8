import type { PullSource, PushTarget } from './kv-connector.ts'

interface ResponsePrefill {
  readonly promptTokens: number
}

/** Engines that can transfer KV blocks to each other, by engine id, and the shared state of other connectors. */
export class KvNetwork {
  readonly #peers = new Map<string, PullSource>()
  /** Connector `lmcache`: by `host:init port`. */
  readonly receivers = new Map<string, PushTarget>()
  /** Connector `response`: finished prefills by the id of their answer. */
  readonly responses = new Map<string, ResponsePrefill>()

  join(peer: PullSource): void {
    this.#peers.set(peer.engineId, peer)
  }

  leave(peer: PullSource): void {
    this.#peers.delete(peer.engineId)
  }

  find(engineId: unknown): PullSource | undefined {
    return typeof engineId === 'string' ? this.#peers.get(engineId) : undefined
  }
}
