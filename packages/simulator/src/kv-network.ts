import type { LmcachePeer } from './kv-lmcache.ts'
import type { KvPeer } from './kv-peer.ts'
import type { ResponsePrefill } from './kv-response.ts'

/** Engines that can transfer KV blocks to each other, by engine id, and the shared state of other connectors. */
export class KvNetwork {
  readonly #peers = new Map<string, KvPeer>()
  /** Connector `lmcache`: by `host:init port`. */
  readonly receivers = new Map<string, LmcachePeer>()
  /** Connector `response`: finished prefills by the id of their answer. */
  readonly responses = new Map<string, ResponsePrefill>()

  join(peer: KvPeer): void {
    this.#peers.set(peer.engineId, peer)
  }

  leave(peer: KvPeer): void {
    this.#peers.delete(peer.engineId)
  }

  find(engineId: unknown): KvPeer | undefined {
    return typeof engineId === 'string' ? this.#peers.get(engineId) : undefined
  }
}
