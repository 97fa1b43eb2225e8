import type { BookingSnapshot, PoolSnapshot } from '../src/core/pool/snapshot.ts'

/** A stored value may have 2 MB; what structured clone adds stays well under the other half. */
const CHUNK_BYTES = 1_000_000

/** Estimated bytes of ids and placement; blocks are counted exactly. */
const BOOKING_BYTES = 1_000

const HEAD = 'snapshot'

const chunkKey = (index: number) => `snapshot:bookings:${index}`

type Head = Omit<PoolSnapshot, 'bookings'> & { readonly chunks: number }

/** Snapshot in an object's storage, with its bookings split over several values. */
export class SnapshotStore {
  readonly #storage: DurableObjectStorage
  #chunks: number

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
    this.#chunks = this.#storage.kv.get<Head>(HEAD)?.chunks ?? 0
  }

  /** Replaces the snapshot atomically. Not awaited: losing the last seconds costs a `resume`, not a request. */
  async save({ bookings, ...rest }: PoolSnapshot): Promise<void> {
    const chunks = inChunks(bookings)
    const entries: [string, unknown][] = chunks.map((chunk, index) => [chunkKey(index), chunk])
    const head: Head = { ...rest, chunks: chunks.length }
    const surplus = Array.from({ length: Math.max(0, this.#chunks - chunks.length) }, (_, index) =>
      chunkKey(chunks.length + index),
    )
    this.#chunks = chunks.length
    // Writes with no await in between are one transaction.
    const writes: Promise<unknown>[] = [...entries, [HEAD, head] as const].map(([key, value]) =>
      this.#storage.put(key, value, { allowUnconfirmed: true }),
    )
    if (surplus.length > 0) writes.push(...surplus.map((key) => this.#storage.delete(key, { allowUnconfirmed: true })))
    await Promise.all(writes)
  }

  load(): PoolSnapshot | null {
    const head = this.#storage.kv.get<Head>(HEAD)
    if (head === undefined) return null
    const { chunks, ...rest } = head
    const bookings = Array.from(
      { length: chunks },
      (_, index) => this.#storage.kv.get<BookingSnapshot[]>(chunkKey(index)) ?? [],
    )
    return { ...rest, bookings: bookings.flat() }
  }
}

function inChunks(bookings: readonly BookingSnapshot[]): BookingSnapshot[][] {
  const chunks: BookingSnapshot[][] = []
  let room = 0
  for (const booking of bookings) {
    const bytes = BOOKING_BYTES + booking.admission.blocks.byteLength
    if (bytes > room || chunks.length === 0) {
      chunks.push([])
      room = CHUNK_BYTES
    }
    chunks.at(-1)!.push(booking)
    room -= bytes
  }
  return chunks
}
