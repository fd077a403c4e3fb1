/*
 * Random paths through the shim's own walk, under AddressSanitizer: what it shows lies in the view or is /dev/null, and what it
 * hands to the kernel does not.
 *
 *   walks VIEW [PATHS [SEED]]
 */
#include "../../cli/preload/view.c"

static const char *const names[] = {
	"sys", "class", "infiniband", "infiniband", "infiniband_verbs", "dev", "soft0", "ports", "1", "state", "..", "..",
	"..", ".", "", "planted-file", "planted-folder", "etc", "passwd", "net", "lo", "uverbs-soft0", "ironverbs-secret", "file",
};

static void random_path(char *path)
{
	static const char *const starts[] = { "", "/sys/class/infiniband", "/dev/infiniband", "/sys/class/infiniband_verbs" };

	strcpy(path, starts[rand() % 4]);
	for (int more = rand() % 14; more > 0; more--) {
		strcat(path, "/");
		strcat(path, names[rand() % (int)(sizeof(names) / sizeof(names[0]))]);
	}
	if (*path == '\0' || rand() % 5 == 0)
		strcat(path, "/");
}

/* Whether the path leads into the folder, by all its links. */
static int leads_into(const char *path, const char *folder)
{
	BEHIND(char *, realpath, (const char *, char *));
	char end[PATH_MAX];

	return function(path, end) && is_under(end, folder);
}

int main(int argc, char **argv)
{
	long paths = argc > 2 ? atol(argv[2]) : 200000, seen = 0;
	char path[PATH_MAX];

	if (argc < 2)
		return 2;
	srand(argc > 3 ? (unsigned)atoi(argv[3]) : 1);
	setenv("IRONVERBS_VIEW", argv[1], 1);
	for (long count = 0; count < paths; count++) {
		char *place;
		const char *taken, *wrong = NULL;
		struct held held;
		size_t room;

		random_path(path);
		room = room_for(path);
		if (room == 0)
			continue;
		place = malloc(room);
		taken = shown(path, place, &held);
		if (taken != place)
			wrong = leads_into(taken, argv[1]) ? "the kernel is asked for the view's own" : NULL;
		else if (!is_shown(taken + view_length))
			wrong = "a place outside of the shown folders";
		else if (access(taken, F_OK) == 0 && !leads_into(taken, argv[1]) && !leads_into(taken, "/dev/null"))
			wrong = "outside of the view";
		seen += taken == place;
		if (wrong) {
			printf("%s: %s: %s\n", path, wrong, taken);
			return 1;
		}
		let_go(&held);
		free(place);
	}
	puts(seen > paths / 100 ? "inside" : "hardly any path was shown");
	return 0;
}
