import type { AddableField } from '../engines/engine-type.ts'
import type { FieldEdit } from '../protocols/protocol.ts'

/** Changes to a body for its pool, engine or leg, in addition to those of every request. */
export interface BodyEdit extends FieldEdit {
  /** Fields that the gateway may add for this engine. Absent: all. */
  readonly addable?: readonly AddableField[]
  /** Name of the model at this engine. Absent: that of the pool, or of the adapter. */
  readonly model?: string
}
