import { decodeIssuedKey, type IssuedKey, type IssuedKeys } from '../src/core/keys/issued-key.ts'

const PREFIX = 'issued_key:'
const VERSION = 'issued_keys_version'

/** Issued keys in the storage of an object, one value each. */
export class IssuedKeyTable {
  readonly #storage: Pick<DurableObjectStorage, 'kv' | 'sync'>

  constructor(storage: Pick<DurableObjectStorage, 'kv' | 'sync'>) {
    this.#storage = storage
  }

  /** null: the version is still `known`. */
  read(known: string | null): IssuedKeys | null {
    const version = String(this.#storage.kv.get<number>(VERSION) ?? 0)
    if (version === known) return null
    const keys = Array.from(this.#storage.kv.list({ prefix: PREFIX }), ([, stored]) => decodeIssuedKey(stored))
    return { version, keys: keys.filter((key) => key !== null) }
  }

  async add(key: IssuedKey): Promise<boolean> {
    const { kv } = this.#storage
    if (kv.get(PREFIX + key.name) !== undefined) return false
    kv.put(PREFIX + key.name, key)
    await this.#changed()
    return true
  }

  async remove(name: string): Promise<boolean> {
    if (!this.#storage.kv.delete(PREFIX + name)) return false
    await this.#changed()
    return true
  }

  /** An operator's change must not be lost. */
  async #changed(): Promise<void> {
    this.#storage.kv.put(VERSION, (this.#storage.kv.get<number>(VERSION) ?? 0) + 1)
    await this.#storage.sync()
  }
}
