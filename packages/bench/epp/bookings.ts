import { until } from '../conformance/until.ts'
import { fleetOf } from './site.ts'

/** Bookings of a picker once releases have had their time. */
export async function bookingsLeft(picker: { readonly port: number }): Promise<number> {
  let left = 0
  const areNone = async (): Promise<boolean> => {
    const { pools } = await fleetOf(picker)
    left = pools.reduce((sum, { bookings }) => sum + bookings, 0)
    return left === 0
  }
  await until(areNone, 'the bookings to end', { limitMs: 5_000 }).catch(() => undefined)
  return left
}
