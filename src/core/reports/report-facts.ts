/** Reported facts of one request as numbers, three per fact, which keeps a live request small. */
import {
  FIELDS,
  MAX_CHUNKS,
  MAX_ITEMS,
  ROLES,
  type ReportPartial,
  type ReportField,
  type ReportRole,
} from './report-partial.ts'

/** Parts of a field: the whole, the number of chunks, or a chunk. */
const WHOLE = 0
const CHUNK_COUNT = 1
const LAST_CHUNK = 2
const FIRST_CHUNK = 3
const PARTS = MAX_CHUNKS + FIRST_CHUNK
/** Pseudo-field: the items of this group run one after the other. */
const SERIAL = FIELDS.length
const KINDS = 16
const ITEMS = MAX_ITEMS + 1

/** Role, field, child, item and part, packed into one number below 2^53. */
interface Slot {
  readonly role: number
  readonly field: number
  /** 0: the request itself; else the child's index + 1. */
  readonly group: number
  /** 0: not itemised; else the item's index + 1. */
  readonly item: number
  readonly part: number
}

function pack({ role, field, group, item, part }: Slot): number {
  return (((group * ITEMS + item) * PARTS + part) * ROLES.length + role) * KINDS + field
}

function unpack(slot: number): Slot {
  const field = slot % KINDS
  let rest = (slot - field) / KINDS
  const role = rest % ROLES.length
  rest = (rest - role) / ROLES.length
  const part = rest % PARTS
  rest = (rest - part) / PARTS
  const item = rest % ITEMS
  return { role, field, group: (rest - item) / ITEMS, item, part }
}

/** A chunked prefill of a million tokens has fewer facts. */
const MAX_FACTS = 4096

/** Facts of one id in the order of arrival. The first fact of a slot counts. */
export class ReportFacts {
  /** Triples: slot, value, order of arrival. */
  readonly #numbers: number[] = []

  get size(): number {
    return this.#numbers.length / 3
  }

  /** false: it adds nothing new. */
  add(partial: ReportPartial, child: number | null, order: number): boolean {
    const role = ROLES.indexOf(partial.role)
    const place = {
      role,
      group: child === null ? 0 : Math.min(child, MAX_ITEMS - 1) + 1,
      item: partial.item === null ? 0 : partial.item + 1,
    }
    let isNew = false
    const put = (field: number, part: number, value: number): void => {
      if (this.#put(pack({ ...place, field, part }), value, order)) isNew = true
    }
    for (const [name, value] of partial.values) {
      const field = FIELDS.indexOf(name)
      put(field, partial.chunk === null ? WHOLE : FIRST_CHUNK + partial.chunk, value)
      if (partial.chunks !== null) put(field, CHUNK_COUNT, partial.chunks)
      if (partial.last && partial.chunk !== null) put(field, LAST_CHUNK, partial.chunk)
    }
    if (partial.serial !== null) put(SERIAL, WHOLE, partial.serial ? 1 : 0)
    return isNew
  }

  #put(slot: number, value: number, order: number): boolean {
    const numbers = this.#numbers
    if (numbers.length >= 3 * MAX_FACTS) return false
    for (let at = 0; at < numbers.length; at += 3) if (numbers[at] === slot) return false
    numbers.push(slot, value, order)
    return true
  }

  forEach(visit: (slot: number, value: number, order: number) => void): void {
    const numbers = this.#numbers
    for (let at = 0; at < numbers.length; at += 3) visit(numbers[at]!, numbers[at + 1]!, numbers[at + 2]!)
  }
}

/** Complete values of one role. */
export type Values = { readonly [Field in ReportField]?: number }

/** Merges the facts of all ids of a request: the first one counts; chunks and items are combined. */
export function valuesByRole(all: readonly ReportFacts[]): Readonly<Record<ReportRole, Values>> {
  const tallies = new Map<number, Tally>()
  for (const [slot, value] of firstOfEach(all)) {
    const { role, field, group, item, part } = unpack(slot)
    if (field === SERIAL) {
      // For the whole role: all its stages agree on whether items run one after the other.
      for (let each = 0; each < FIELDS.length; each++)
        tallyOf(tallies, role * KINDS + each).serial.set(group, value === 1)
    } else
      tallyOf(tallies, role * KINDS + field)
        .piece(group, item)
        .take(part, value)
  }
  const byRole: Record<ReportRole, Record<string, number>> = { meta: {}, encoder: {}, pd: {} }
  for (const [name, tally] of tallies) {
    const value = tally.value()
    if (value !== null) byRole[ROLES[Math.floor(name / KINDS)]!][FIELDS[name % KINDS]!] = value
  }
  return byRole
}

/** Number of children with a report of the role. */
export function childrenSeen(all: readonly ReportFacts[]): number {
  const groups = new Set<number>()
  for (const facts of all) {
    facts.forEach((slot) => {
      const { role, group, item } = unpack(slot)
      if (ROLES[role] === 'encoder') groups.add(group * ITEMS + item)
    })
  }
  return groups.size
}

function firstOfEach(all: readonly ReportFacts[]): Iterable<readonly [number, number]> {
  const pairs: [number, number][] = []
  if (all.length === 1) {
    all[0]!.forEach((slot, value) => pairs.push([slot, value]))
    return pairs
  }
  const triples: [number, number, number][] = []
  for (const facts of all) facts.forEach((slot, value, order) => triples.push([slot, value, order]))
  triples.sort((a, b) => a[2] - b[2])
  const first = new Map<number, number>()
  for (const [slot, value] of triples) if (!first.has(slot)) first.set(slot, value)
  return first
}

function tallyOf(tallies: Map<number, Tally>, name: number): Tally {
  const known = tallies.get(name)
  if (known !== undefined) return known
  const tally = new Tally()
  tallies.set(name, tally)
  return tally
}

/** One field of one role: its children with their items, each whole or in chunks. */
class Tally {
  readonly serial = new Map<number, boolean>()
  readonly #pieces = new Map<number, Map<number, Piece>>()

  piece(group: number, item: number): Piece {
    const items = this.#pieces.get(group) ?? new Map<number, Piece>()
    this.#pieces.set(group, items)
    const piece = items.get(item) ?? new Piece()
    items.set(item, piece)
    return piece
  }

  /**
   * Items of one id run one after the other unless reported otherwise; children run in parallel unless their items do.
   * null: incomplete.
   */
  value(): number | null {
    let widest = 0
    const serialTotals: number[] = []
    for (const [group, items] of inOrder(this.#pieces)) {
      const total = totalOf(items, group === 0 && this.serial.get(group) === false)
      if (total === null) return null
      if (group !== 0 && this.serial.get(group) === true) serialTotals.push(total)
      else widest = Math.max(widest, total)
    }
    return this.#pieces.size === 0 ? null : widest + sum(serialTotals)
  }
}

/** A total over all items takes precedence over the items. */
function totalOf(items: ReadonlyMap<number, Piece>, isParallel: boolean): number | null {
  const together = items.get(0)?.value()
  if (together !== undefined && together !== null) return together
  const values: number[] = []
  for (const [, piece] of inOrder(items)) {
    const value = piece.value()
    if (value === null) return null
    values.push(value)
  }
  return isParallel ? Math.max(...values) : sum(values)
}

/** Sorted by key, because floating-point sums must not depend on the order of arrival. */
function inOrder<Value>(map: ReadonlyMap<number, Value>): [number, Value][] {
  return [...map].sort((a, b) => a[0] - b[0])
}

/** One stage of one item. */
class Piece {
  #whole: number | null = null
  #count: number | null = null
  #last: number | null = null
  readonly #chunks: [chunk: number, value: number][] = []

  take(part: number, value: number): void {
    if (part === WHOLE) this.#whole = value
    else if (part === CHUNK_COUNT) this.#count = value
    else if (part === LAST_CHUNK) this.#last = value
    else this.#chunks.push([part - FIRST_CHUNK, value])
  }

  /** null: chunks are missing. */
  value(): number | null {
    if (this.#whole !== null) return this.#whole
    const chunks = this.#chunks.sort((a, b) => a[0] - b[0])
    return this.#complete(chunks) ? sum(chunks.map(([, value]) => value)) : null
  }

  #complete(chunks: readonly (readonly [number, number])[]): boolean {
    if (this.#count !== null) return chunks.length >= this.#count
    if (this.#last === null) return false
    // Some count from 0, some from 1; either way there is no gap up to the last.
    const first = chunks[0]![0]
    return first <= 1 && chunks.length === this.#last - first + 1
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
