/** Another gateway with books of the same engines, as this one knows it. */
export interface ReplicaDigest {
  /** HOST:PORT. */
  readonly address: string
  /** Of its process; null: it was never reached. */
  readonly id: string | null
  /** `away`: what it books is not known here. */
  readonly state: 'following' | 'away'
  /** Its live bookings, of all pools. */
  readonly bookings: number
}
