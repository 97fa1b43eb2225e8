import type { AddableField } from '../engines/engine-type.ts'

/** Changes to a body for one leg of a split request, in addition to those of every request. */
export interface BodyEdit {
  /** Field → value as JSON text. Replaces the client's value, or is added at the front. */
  readonly set: Readonly<Record<string, string>>
  readonly remove: readonly string[]
  /** Fields that the gateway may add for this engine. Absent: all. */
  readonly addable?: readonly AddableField[]
  /** Name of the model at this engine. Absent: that of the pool, or of the adapter. */
  readonly model?: string
}
