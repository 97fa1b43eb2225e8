/** A fault of the object of one pool. */
export interface ObjectFault {
  readonly kind: 'evicted' | 'alarms lost' | 'clock set'
  /** How long alarms are lost, or how far the clock is moved. */
  readonly ms: number
}
