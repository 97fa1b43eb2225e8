/** Issued keys on the server, for all replicas. */
import { decodeIssuedKey, type IssuedKey, type IssuedKeys } from '../../../core/keys/issued-key.ts'
import type { IssuedKeyStore } from '../../../ports/issued-keys.ts'
import type { Connection } from './connection.ts'
import { script } from './scripts.ts'

/** Field of the version; names of keys have the prefix `k:`. */
const VERSION = 'version'

const PREFIX = 'k:'

/** Reads all keys. KEYS: 1 hash. ARGV: version that the caller has. Returns nothing if it is still that. */
const READ = script(`
local version = redis.call('HGET', KEYS[1], '${VERSION}') or '0'
if version == ARGV[1] then return {} end
return {version, unpack(redis.call('HVALS', KEYS[1]))}
`)

/** Adds a key, unless there is one with its name. KEYS: 1 hash. ARGV: field, key. */
const ADD = script(`
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], '${VERSION}', 1)
return 1
`)

/** Removes a key. KEYS: 1 hash. ARGV: field. */
const REMOVE = script(`
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[1], '${VERSION}', 1)
return 1
`)

interface ReplicatedKeysParts {
  readonly connection: Pick<Connection, 'run'>
  readonly prefix: string
}

/** Every method rejects if the server does not answer. */
export class ReplicatedKeys implements IssuedKeyStore {
  readonly #parts: ReplicatedKeysParts

  constructor(parts: ReplicatedKeysParts) {
    this.#parts = parts
  }

  async read(known: string | null): Promise<IssuedKeys | null> {
    const [version, ...stored] = (await this.#run(READ, [known ?? ''])) as readonly string[]
    if (version === undefined) return null
    const keys = stored.flatMap((text) => decodeIssuedKey(JSON.parse(text)) ?? [])
    return { version, keys }
  }

  async add(key: IssuedKey): Promise<boolean> {
    return Number(await this.#run(ADD, [PREFIX + key.name, JSON.stringify(key)])) === 1
  }

  async remove(name: string): Promise<boolean> {
    return Number(await this.#run(REMOVE, [PREFIX + name])) === 1
  }

  #run(one: Parameters<Connection['run']>[0], given: string[]): Promise<unknown> {
    return this.#parts.connection.run(one, [`${this.#parts.prefix}:issued_keys`], given)
  }
}
