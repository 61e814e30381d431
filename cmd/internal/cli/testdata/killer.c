/* A job that leaves its mark and kills its wrapper, as fast as a job can: before the
 * wrapper has had time to note whom it started. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);

	if (argc < 3 || fd < 0 || write(fd, argv[2], strlen(argv[2])) < 0 || write(fd, "\n", 1) < 0)
		return 1;
	return kill(getppid(), SIGKILL);
}
