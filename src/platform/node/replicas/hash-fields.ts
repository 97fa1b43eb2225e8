/**
 * Fields of the hash with a replica's open bookings on the server. Their first letter is their kind. Replicas of all
 * versions with one `WIRE_VERSION` read them.
 */
import type { EngineSignal } from '../../../core/contract/engine-signal.ts'
import type { EarlyLegRole } from '../../../core/contract/legs.ts'

/** Number of the replica's last message. */
export const NUMBER_FIELD = '#'

/** A booking, and its last event of each kind. A release deletes them all. */
const LETTERS: Readonly<Record<'booking' | EarlyLegRole | 'first_token' | 'progress', string>> = {
  booking: 'b',
  encode: 'e',
  prefill: 'p',
  first_token: 'f',
  progress: 'o',
}

/** First letters of all fields of a booking. */
export const BOOKING_LETTERS: readonly string[] = Object.values(LETTERS)

/** Field of a booking, or of its last event of a kind. */
export const bookingField = (kind: keyof typeof LETTERS, key: string): string => LETTERS[kind] + key

/** Whether it is the field of a booking itself. Its events are applied after it. */
export const isBooking = (field: string): boolean => field.startsWith(LETTERS.booking)

/** Field of a drain or a pause. */
export const signalField = ({ kind, engine }: Pick<EngineSignal, 'kind' | 'engine'>): string =>
  kind === 'drain' ? `s${engine}` : `s${engine} paused`
