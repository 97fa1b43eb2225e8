import type { Page } from 'playwright-core'

/**
 * Runs in the page: the lowest contrast (WCAG 2.2, 1.4.3) of every element with its own text against its background.
 */
const MEASURE = `(() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number)
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0)
  const behind = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor)
      if (colour.length < 4 || colour[3] > 0) return colour
    }
    return [255, 255, 255]
  }
  const out = []
  for (const element of document.body.querySelectorAll('*')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '')
    if (!own || element.closest('option') !== null || element.disabled || element.getClientRects().length === 0) continue
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x)
    out.push({ ratio: (a + 0.05) / (b + 0.05), text: element.textContent.slice(0, 40), on: element.tagName + '.' + element.className })
  }
  return out.sort((x, y) => x.ratio - y.ratio)[0]
})()`

export const minContrast = (
  page: Page,
): Promise<{ readonly ratio: number; readonly text: string; readonly on: string }> => page.evaluate(MEASURE)
