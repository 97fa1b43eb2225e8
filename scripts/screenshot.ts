/** Pictures of the documentation. */
import { mkdirSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'

const folder = new URL('../docs/images/', import.meta.url)
const limitBytes = 150_000

/** Suffix of the name, colours and size of the window of each picture of a view. */
export const LOOKS = [
  ['', 'light', 1280, 900],
  ['-dark', 'dark', 1280, 900],
  ['-phone', 'light', 390, 844],
] as const

/** Takes a picture of a page, and fails if it is too large for the documentation. */
export async function shoot(page: Page, name: string): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const path = fileURLToPath(new URL(name, folder))
  await page.screenshot({ path })
  const { size } = statSync(path)
  console.log(`docs/images/${name}: ${Math.round(size / 1000)} kB`)
  if (size > limitBytes)
    throw new Error(`${name} has ${size} bytes; pictures in the documentation have at most ${limitBytes}`)
}
