/** Who looks at the console. */
import { signal } from '@preact/signals';
import type { ViewerAnswer } from '#console/api/read-viewer.ts';
import { get } from './api.ts';

export const viewer = signal<ViewerAnswer | undefined>(undefined);

export async function loadViewer(): Promise<void> {
  viewer.value = await get<ViewerAnswer>('/api/viewer').catch(() => undefined);
}

export function mayOperate(): boolean {
  return viewer.value?.role === 'operator';
}
